"""How we are connected with a server: what anybody between could read."""

from cronhare.ports.inspection import Link, Severity

from .finding import Finding
from .servers import Server


def judge_link(link: Link, server: Server) -> Finding:
    """Say who could read along, or stand in between."""
    if link.tls is not None:
        verified = "certificate and host name verified" if link.verified else "not verified"
        what = f"The link to {link.host} is encrypted ({link.tls}), {verified}"
        if link.verified or link.local:
            return Finding(Severity.OK, server.subject, what)
        return Finding(Severity.WARNING, server.subject, what, "take the option out that allows it")
    if link.local:
        return Finding(
            Severity.OK, server.subject, f"The link to {link.host} stays on this machine"
        )
    return Finding(
        Severity.NOTE,
        server.subject,
        f"Password and params travel to {link.host} in plain text, as {server.plain} says",
        f"{server.encrypted} unless the network between is your own",
    )
