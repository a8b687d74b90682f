"""The seeds: what the operator gave, with scope, depth, pace and budget; rows of the cabin's seed table, cached.

A later ADD of a seed widens it: its rules are added to the scope, a larger MAXDEPTH wins, none at all wins over any.
Scopes have numbers, and the same rules have the same number, so a visit can say for which scopes its links were
offered.
"""

from __future__ import annotations

from dataclasses import dataclass

from combine.errors import Rejected
from combine.schedule import scope as scopes
from combine.schedule.rows import Rows
from combine.schedule.scope import Rule, Scope
from formats.jcf import Job

UNLIMITED = float("inf")

#: Cached seeds; above, the cache starts anew.
CACHE = 20_000


@dataclass(frozen=True, slots=True)
class Seed:
    """One seed. `maxdepth` is None where its links are followed however far; `delay` is "", "auto" or seconds."""

    id: int
    url: str
    scope_id: int
    scope: Scope
    maxdepth: int | None
    tag: str
    delay: str
    budget: str
    hosts: str  # by which alone its scope goes, as a job says it

    def left(self, depth: int) -> float:
        """The hops left at a depth."""
        return UNLIMITED if self.maxdepth is None else float(self.maxdepth - depth)


class Seeds:
    """All seeds of a home."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._by_url: dict[str, Seed] = {}
        self._by_id: dict[int, Seed] = {}
        self._left: dict[str, int] = {}
        self.spent: set[str] = set()
        self.is_refilled = False
        self.version = 0  # counts what was written: a seed read before may be another by now
        self.reload()

    def reload(self) -> None:
        """Forget what is cached, and read which budgets are spent."""
        self._by_url.clear()
        self._by_id.clear()
        self._left = dict(self.budgets())
        self.spent = {name for name, left in self._left.items() if left <= 0}

    def find(self, url: str) -> Seed | None:
        """The seed with a URL."""
        return self._by_url.get(url) or self._read("url = ?", url)

    def get(self, number: int) -> Seed:
        """The seed with a number that a row holds."""
        seed = self._by_id.get(number) or self._read("id = ?", number)
        assert seed is not None, "a row's seed is in the seed table"
        return seed

    def put(self, url: str, line: Job) -> Seed:
        """Add a seed, or widen it, as an ADD line says; raises Rejected for what it cannot mean."""
        rule = scopes.seed_rule(line.get("SCOPE"), url, line.get("INCLUDE"), line.get("EXCLUDE"))
        delay = line.get("DELAY")
        if delay not in ("", "auto"):
            line.seconds("DELAY")
        limit = line.get("MAXDEPTH")
        maxdepth = line.number("MAXDEPTH") if limit else None
        if maxdepth is not None and maxdepth < 0:
            raise Rejected(f"MAXDEPTH={maxdepth} is below 0")
        old = self.find(url)
        rules = [rule, *([scopes.REQUISITES] if line.get("REQUISITES") == "1" else [])]
        scope = (old.scope if old else Scope(())).widened(rules)
        if old is not None:
            maxdepth = None if maxdepth is None or old.maxdepth is None else max(maxdepth, old.maxdepth)
        budget = line.get("BUDGET")
        if budget and line.get("LIMIT"):
            self._open_budget(budget, line)
        tag = line.get("TAG") or (old.tag if old else "")
        self._write(url, scope, maxdepth, tag, delay, budget)
        self.is_refilled = True
        seed = self._read("url = ?", url)
        assert seed is not None
        return seed

    def widen(self, seed: Seed, rule: Rule) -> Seed:
        """Add a rule to a seed's scope."""
        scope = seed.scope.widened([rule])
        self._write(seed.url, scope, seed.maxdepth, seed.tag, seed.delay, seed.budget)
        widened = self._read("url = ?", seed.url)
        assert widened is not None
        return widened

    def spend(self, seed: Seed, pages: int) -> None:
        """Take pages from a seed's budget, or give them back (negative)."""
        if seed.budget in self._left:
            self._rows.change("UPDATE budget SET left = left - ? WHERE name = ?", pages, seed.budget)
            self._note_left(seed.budget, self._left[seed.budget] - pages)

    def left(self, seed: Seed) -> float:
        """How many pages a seed's run may still take."""
        return self._left.get(seed.budget, UNLIMITED)

    def set_budget(self, name: str, left: int) -> None:
        """Set how many pages a run may still take."""
        self._rows.change("INSERT OR REPLACE INTO budget VALUES (?, ?)", name, left)
        self._note_left(name, left)

    def _note_left(self, name: str, left: int) -> None:
        self._left[name] = left
        if left <= 0:
            self.spent.add(name)
        elif name in self.spent:
            self.spent.discard(name)
            self.is_refilled = True

    def budgets(self) -> list[tuple[str, int]]:
        """All budgets and what is left of each."""
        return list(self._rows.db.execute("SELECT name, left FROM budget"))

    def _open_budget(self, name: str, line: Job) -> None:
        limit = line.number("LIMIT")
        if limit < 0:
            raise Rejected(f"LIMIT={limit} is below 0")
        known = self._rows.db.execute("SELECT 1 FROM budget WHERE name = ?", (name,)).fetchone()
        if known is None:
            unused = "DELETE FROM budget WHERE name NOT IN (SELECT budget FROM seed)"
            self._rows.change(unused)
            self._left = dict(self.budgets())
            self.set_budget(name, limit)

    def _write(self, url: str, scope: Scope, maxdepth: int | None, tag: str, delay: str, budget: str) -> None:
        text = scope.dump()
        self.version += 1
        self._rows.change("INSERT OR IGNORE INTO scope(text) VALUES (?)", text)
        (scope_id,) = self._rows.db.execute("SELECT id FROM scope WHERE text = ?", (text,)).fetchone()
        self._rows.change(
            "INSERT INTO seed(url, scope, maxdepth, tag, delay, budget) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT(url)"
            " DO UPDATE SET scope = excluded.scope, maxdepth = excluded.maxdepth, tag = excluded.tag,"
            " delay = excluded.delay, budget = excluded.budget",
            url, scope_id, maxdepth, tag, delay, budget,
        )  # fmt: skip

    def _read(self, where: str, value: object) -> Seed | None:
        row = self._rows.db.execute(
            "SELECT seed.id, url, scope, text, maxdepth, tag, delay, budget FROM seed"
            f" JOIN scope ON scope.id = seed.scope WHERE seed.{where}",
            (value,),
        ).fetchone()
        if row is None:
            return None
        number, url, scope_id, text, maxdepth, tag, delay, budget = row
        scope = scopes.load(text)
        seed = Seed(number, url, scope_id, scope, maxdepth, tag, delay, budget, scope.hosts)
        if len(self._by_id) > CACHE:
            self._by_id.clear()
            self._by_url.clear()
        self._by_id[number] = self._by_url[url] = seed
        return seed
