from collections.abc import Callable

import pytest

TASK = '[tasks.t]\nid = 1\ncommand = ["true"]\n'

Faults = Callable[[str | bytes], list[str]]


def test_every_fault_is_told_at_once_with_its_place(faults: Faults) -> None:
    said = faults(
        """
        speed = 3

        [tasks.good]
        id = 1
        command = ["true"]

        [tasks.bad]
        id = 0
        command = []
        timeout = "soon"
        colour = "red"

        [tasks.same]
        id = 1
        command = ["true"]

        [schedules.good]
        task = "good"
        schedule = "@daily"

        [schedules.bad]
        task = "god"
        schedul = "@daily"
        timezone = "Europe/Berln"
        overlap = "never"
        status = 1
        params = { ratio = nan }
        retry = "often"

        [schedules.never]
        task = "bad"
        schedule = "0 0 30 2 *"
        date_time = 2026-01-01T00:00:00Z
        """
    )

    assert [(line.split(": ")[0], line.split(": ")[1]) for line in said] == [
        (
            "speed",
            (
                "is not known here; there are calendars, classes, defaults, notify, queues, "
                "schedules, source, tasks"
            ),
        ),
        ("tasks.bad", "id"),
        ("tasks.bad", "command"),
        ("tasks.bad", "timeout"),
        ("tasks.bad", "colour"),
        ("tasks.same", "id"),
        ("schedules.bad", "schedul"),
        ("schedules.bad", "overlap"),
        ("schedules.bad", "status"),
        ("schedules.bad", "params.ratio"),
        ("schedules.bad", "task"),
        ("schedules.bad", "schedule"),
        ("schedules.bad", "retry"),
        ("schedules.bad", "timezone"),
        ("schedules.never", "date_time"),
        ("schedules.never", "schedule"),
    ]


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ('id = "1"', 'id: "1" is not a whole number, 1-2,147,483,647'),
        (f"id = {10**30}", "id: is no whole number of 64 bits, which are from -2^63 to 2^63-1"),
        (
            'id = 2\ntype = "Job"',
            'type: "Job" is not one of report, worker, reminder, event, or a name',
        ),
        ('id = 2\ntype = "system"', "type: system is the type of what schedulers run themselves"),
        ("id = 2\nenv = { A = 1 }", 'env: {"A":1} is not a table of texts'),
        ('id = 2\nenv = { "A=B" = "1" }', "env: 'A=B' cannot name a variable"),
        ('id = 2\ntimout = "5m"', "timout: is not known here; did you mean timeout?"),
    ],
)
def test_a_task_that_cannot_be_says_what_is_wrong_and_what_is_allowed(
    faults: Faults, fields: str, fault: str
) -> None:
    [said] = faults(f'[tasks.t]\ncommand = ["true"]\n{fields}\n')

    assert said.startswith("tasks.t: ")
    assert fault in said


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        (
            "",
            "schedule: is missing; give schedule, every, date_time, on_boot, on_start, stay_alive",
        ),
        ('schedule = "@daily"\ndate_time = 2026-01-01T00:00:00Z', "not both"),
        ('schedule = "0 0 30 2 *"', "schedule: never fires: "),
        ('schedule = "@daily"\nfold = 2', 'fold: 2 is not one of "first", "second", "both", 0, 1'),
        (
            'date_time = 2026-10-25T02:30:00\ntimezone = "Europe/Berlin"\nfold = "both"',
            "fold: both is for cron text",
        ),
        ('every = "30"', "every: '30' is no duration"),
        ('every = "30s"\nschedule = "@daily"', "every: a schedule has an interval, or cron text"),
        ('schedule = "@daily"\nmisfire = "never"', 'misfire.policy: "never" is not one of "skip"'),
        (
            'schedule = "@daily"\nqueue = "cron_scheduler_retry.07"',
            "queue: cron_scheduler_retry.07 is one of the system's own queues; name a task queue",
        ),
        (
            'schedule = "@daily"\nqueue = "cron_standalone.s"',
            "is that of a schedule with stay_alive, and no other's",
        ),
        (
            'stay_alive = true\nqueue = "reports"',
            "queue: a schedule with stay_alive has a queue of its own; it names none",
        ),
        (
            "stay_alive = true\non_boot = true",
            "on_boot: stay_alive begins it whenever none runs: leave one of them out",
        ),
        (
            'schedule = "@daily"\nstarts_at = 2026-02-01T00:00:00Z\nends_at = 2026-01-01T00:00:00Z',
            "ends_at: lies before starts_at",
        ),
        ('date_time = 2026-03-29T02:30:00\ntimezone = "Europe/Berlin"', "2026-03-29"),
        ("date_time = 2026-03-29", "date_time: 2026-03-29 has no time; write 2026-03-29T00:00:00"),
        (
            "on_start = true\nparams = { a = { b = [1, inf] } }",
            "schedules.s: params.a.b[1]: inf is no number in JSON",
        ),
        (
            f'on_start = true\nparams = {{ a = "{"x" * 102_400}" }}',
            "schedules.s: params: 102408 bytes of JSON, 102400 are allowed",
        ),
    ],
)
def test_a_schedule_that_cannot_be_says_what_is_wrong_and_what_is_allowed(
    faults: Faults, fields: str, fault: str
) -> None:
    said = faults(f'{TASK}[schedules.s]\ntask = "t"\n{fields}\n')

    assert all(line.startswith("schedules.s: ") for line in said)
    assert fault in said[-1]


def test_a_task_that_does_not_exist_is_told_with_the_one_that_may_be_meant(faults: Faults) -> None:
    schedule = '[schedules.s]\non_start = true\ntask = "{}"\n'

    close = faults('[tasks.report]\nid = 1\ncommand = ["a"]\n' + schedule.format("reprot"))
    far = faults(TASK + schedule.format("xyz"))
    none = faults(schedule.format("xyz"))

    assert close == ["schedules.s: task: there is no task 'reprot'; did you mean report?"]
    assert far == ["schedules.s: task: there is no task 'xyz'; there are t"]
    assert none == ["schedules.s: task: there is no task 'xyz'; there are no tasks"]


NOT_ALLOWED = "is not allowed; allowed are a-z, 0-9, dot, dash and underscore, at most 63"


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        *((name, NOT_ALLOWED) for name in ("Report", "-a", "", "x" * 64)),
        ("cronhare-cleanup", "cronhare- is how the system's own schedules begin"),
    ],
)
def test_a_name_that_is_not_allowed_says_what_is(faults: Faults, name: str, fault: str) -> None:
    [said] = faults(f'{TASK}[schedules."{name}"]\ntask = "t"\non_start = true\n')

    assert fault in said


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("[tasks", "cannot be read as TOML: "),
        ("a = " + "[" * 5_000, "more than 64 tables and lists in one another"),
        (b"\xff\xfe", "is not UTF-8 text: invalid start byte at byte 0"),
        (f"{TASK}[[schedules]]\n", "schedules: [{}] is not a table"),
        ("[tasks.t]", "tasks.t: command: is missing; give a command, a url, python, or remind"),
        (
            f'{TASK}topics = ["a", "b"]\n[tasks.u]\ncommand = ["true"]\ntopics = ["b"]\n',
            "tasks.u: topics: tasks.t listens to b already; give each its own",
        ),
    ],
)
def test_a_file_that_cannot_be_read_or_is_of_the_wrong_shape_says_where(
    faults: Faults, content: str | bytes, fault: str
) -> None:
    assert fault in "\n".join(faults(content))


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ('topic = "a"\ntask = "t"', "topic: a schedule names a task or a topic, not both"),
        ('topic = "a"\nparams = {}', "params: of an event are its payload: call them so"),
        ('task = "t"\npayload = {}', "payload: is for a topic; a task has params"),
        ('topic = "a"\npayload = [1]', "payload: must be a table, which listeners are given"),
        ('topic = "a b"', 'topic: "a b" is not a topic: letters, digits, and . _ : / -'),
        ('topic = "a"\nno_listener = "never"', 'no_listener: "never" is not one of "complete"'),
        ('task = "t"\nno_listener = "fail"', "no_listener: is for a topic, or for a task of"),
    ],
)
def test_what_does_not_go_together_with_a_topic_is_told(
    faults: Faults, fields: str, fault: str
) -> None:
    [said] = faults(f'{TASK}[schedules.s]\nschedule = "@daily"\n{fields}\n')

    assert fault in said


URL = 'url = "https://shop.example/hook?key=SECRET"'


def headers(letter: str, many: int) -> str:
    return ", ".join(f'{letter}{n} = "V"' for n in range(many))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('type = "report"', ["command: is missing; give a command, a url, python, or remind"]),
        (f'{URL}\ncommand = ["true"]', ["command: is for a command; this task has a url"]),
        (
            f'{URL}\nheaders = {{ Host = "x", "a b" = "x" }}',
            ["'Host' frames the message", "'a b' is no header's name"],
        ),
        (f'{URL}\nheaders = {{ X = "a\\r\\nHost: b" }}', ["headers.X: has a line end"]),
        (f'{URL}\nheaders = {{ cron-fence = "1" }}', ["cron-fence is said by cronhare itself"]),
        (
            f"{URL}\nheaders = {{ {headers('A', 20)} }}\nheaders_env = {{ {headers('B', 37)} }}",
            ["headers: 57 with those of headers_env: 56 are allowed"],
        ),
        (f'{URL}\nheaders = {{ X = "1" }}\nheaders_env = {{ x = "X" }}', ["'x' is given twice"]),
        (f"{URL}\nsuccess = [99, true]", ["99 is no status", "True is no status"]),
        ('url = "file:///etc/passwd"', ["url: must be like"]),
    ],
)
def test_what_cannot_be_a_request_is_refused(faults: Faults, content: str, told: list[str]) -> None:
    said = faults(f"[tasks.t]\n{content}\n")

    assert len(said) == len(told)
    assert all(part in fault for part, fault in zip(told, said, strict=True)), said
    assert "SECRET" not in " ".join(said)
