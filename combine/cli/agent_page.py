"""The command agent-page: the static page for agent.url, which tells a site's people who asks, and how to stop it."""

from __future__ import annotations

from html import escape
from pathlib import Path

from combine.cli import plan
from combine.cli.export import write
from combine.cli.screen import put
from combine.cli.session import Session, command, output_option
from combine.config import Settings
from combine.errors import ConfigError

_PURPOSES = {
    "search": "We make the pages searchable.",
    "archive": "We keep the pages in an archive.",
    "research": "We use the pages for research. Pages that reserve text and data mining are not used.",
    "ai": "We use the pages for machine learning. Pages that reserve that are not used.",
}


@command("agent-page", settings=True)
@output_option
def agent_page_command(session: Session, output: Path | None) -> None:
    """Write the static page that agent.url leads to.

    It says who harvests, what for and how fast, how a site can block it, and whom to write to.
    """
    page = agent_page(session.settings(session.where()))
    if output is None:
        put(page)
    else:
        write(output, [page.encode()])
        session.say(f"combine: wrote {output}")


def agent_page(settings: Settings) -> str:
    """The page; raises ConfigError where nobody is named."""
    agent = settings.agent
    if not agent.email:
        raise ConfigError("set agent.email in combine.toml first: the page names whom to write to")
    name, email = escape(agent.name), escape(agent.email)
    parts = [
        ("Who we are", f"<p>Our robot asks as</p><pre>{escape(plan.agent(settings))}</pre>"),
        ("What for", f"<p>{_PURPOSES[settings.rights.purpose]}</p>"),
        ("How fast", f"<p>{_pace(settings)}</p>"),
        (
            "How to block it",
            "<p>We obey robots.txt (RFC 9309), read within a day. To keep our robot out, write there</p>"
            f"<pre>User-agent: {name}\nDisallow: /</pre><p>To slow it down</p>"
            f"<pre>User-agent: {name}\nCrawl-delay: 60</pre>"
            "<p>We heed robots metas and X-Robots-Tag, and Retry-After of answers 429 and 503.</p>",
        ),
        ("Whom to write to", f'<p><a href="mailto:{email}">{email}</a>, also to have pages removed.</p>'),
    ]
    body = "\n".join(f"<h2>{heading}</h2>\n{text}" for heading, text in parts)
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>The robot {name}</title>\n'
        f"<h1>The robot {name}</h1>\n{body}\n</html>\n"
    )


def _pace(settings: Settings) -> str:
    rules = settings.politeness
    wait = f"{rules.delay_s:g} s"
    if rules.mode == "auto":
        wait = f"as long as your server took, and {rules.auto_floor_s:g} s"
    return (
        f"One request at a time to a site. After each we wait at least {wait}, or what your Crawl-delay says where "
        f"that is longer. Never more than {rules.site_requests_day:,} requests a day."
    )
