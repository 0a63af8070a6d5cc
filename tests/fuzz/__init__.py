"""What comes from outside, at its worst: every boundary is tried, beside an innocent neighbour.

Run it:  make fuzz                                    all boundaries, in the long form
         .venv/bin/python -m tests.fuzz tokens rows   these
         .venv/bin/python -m tests.fuzz deliveries --only brackets --short
`make faults` runs the short form: `tests/integration/test_fuzz.py`.

A boundary is where strangers, tasks, or people who edit rows of `Scheduler` reach us. Jobs files,
settings and arguments are their author's, and tables that only we write have no boundary. Each is
one module of this package, which holds one `BOUNDARY`, and is found by that:

    def _brackets(works: Works) -> Answer:
        works.plant.publish(b"[" * 5_000)
        works.wait_for_line("message.parked", naming="not a task message")
        return Answer.REFUSED

    BOUNDARY = Boundary(
        name="deliveries",
        at=works,
        entries=[Entry("5,000 brackets", _brackets, short=True)],
        by_chance=lambda chance: Entry(f"noise {(n := chance.random())}", partial(_noise, n)),
    )

**An entry** is a name and a function of the site. It applies the input, waits until its end is
seen, tidies up, and says what became of it: `Answer.HANDLED` (it was taken, and rightly so) or
`Answer.REFUSED` (somebody was told the place, what is wrong and what is allowed). Whatever it
raises counts as mishandled. Each wait in it is bounded. `short=True` puts it into the short form:
choose a handful of quick ones per boundary, the worst of each kind. **By chance**, in the long
form, a boundary may make further entries of a `random.Random`; `--seed` repeats them.

**A site** is what the boundary belongs to, running: see `sites.py` (API and page, with a ledger of
its own) and `works.py` (a scheduler and two workers on a real broker and a real database). It is
opened once for all boundaries that name the same one, and anew after an entry that was mishandled.
Its method `innocent()` is called after each entry: it has innocent work done, and raises
`Mishandled` if that does not end in its time, or if it finds a traceback, a process that ended, or
a flood of lines.

Mishandled is: a traceback, a hang, a restart loop, silence, a half-written state, an innocent who
waits. The exit status is 1 if anything was mishandled.
"""
