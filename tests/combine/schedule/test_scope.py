from __future__ import annotations

import pytest

from combine.errors import Rejected
from combine.schedule.scope import HOSTS_LENGTH, REQUISITES, Rule, Scope, admits, load, seed_rule
from combine.urls import site_of

#: scope, seed, include, exclude: a URL that belongs, and one that does not
SCOPES = [
    ("host", "http://a.example/x", "", "", "https://a.example/", "http://b.example/"),
    ("host", "http://a.example/x", "", "", "http://www.a.example/", "http://www.www.a.example/"),
    ("host", "http://www.a.example/x", "", "", "http://a.example/y", "http://c.a.example/"),
    ("host", "http://a.example:8080/", "", "", "http://a.example/", "http://ba.example/"),
    ("domain", "http://w.a.example.org/", "", "", "http://b.c.example.org/", "http://badexample.org/"),
    ("domain", "http://a.example.co.uk/", "", "", "http://example.co.uk/", "http://other.co.uk/"),
    ("domain", "http://192.0.2.1/", "", "", "http://192.0.2.1/x", "http://192.0.2.2/"),
    ("domain", "http://localhost/", "", "", "http://localhost/x", "http://local/"),
    ("under:http://a.example/docs/", "http://a.example/", "", "", "https://a.example/docs/1", "http://a.example/doc"),
    ("under:a.example", "http://a.example/", "", "", "http://a.example/x", "http://a.example.evil/"),
    (
        "under:HTTP://A.example:80/Docs",
        "http://a.example/",
        "",
        "",
        "http://a.example/Docs?2",
        "http://a.example/Docs2",
    ),
    ("under:a.example/dir", "http://a.example/", "", "", "http://a.example/dir", "http://a.example/dirt"),
    ("under:a.example/dir", "http://a.example/", "", "", "http://a.example/dir/x", "http://a.example/"),
    ("under:a.example/dir", "http://a.example/", "", "", "http://a.example/dir;v=1", "http://a.example/dir-2/"),
    ("under:a.example/dir/", "http://a.example/", "", "", "http://a.example/dir/", "http://a.example/dir"),
    ("under:a.example/l?c=5", "http://a.example/", "", "", "http://a.example/l?c=5&p=2", "http://a.example/l?c=55"),
    ("under:a.example/l?c=", "http://a.example/", "", "", "http://a.example/l?c=55", "http://a.example/l?d=55"),
    ("under:a.example/l?", "http://a.example/", "", "", "http://a.example/l?", "http://a.example/l"),
    ("under:http://a.example:81/", "http://a.example/", "", "", "http://a.example:81/", "http://a.example/"),
    ("host", "http://a.example/", r"\.html$", "", "http://a.example/1.html", "http://a.example/1.pdf"),
    ("host", "http://a.example/", "", r"\?", "http://a.example/1", "http://a.example/1?x"),
    ("host", "http://a.example/", "/a/", "/a/b", "http://a.example/a/c", "http://a.example/a/b"),
]


@pytest.mark.parametrize(("scope", "seed", "include", "exclude", "inside", "outside"), SCOPES)
def test_what_a_scope_admits(scope: str, seed: str, include: str, exclude: str, inside: str, outside: str) -> None:
    rules = Scope((seed_rule(scope, seed, include, exclude),))
    for each in (rules, load(rules.dump())):
        assert each.admits(inside)
        assert not each.admits(outside)


@pytest.mark.parametrize(
    ("scope", "include", "exclude", "why"),
    [
        ("", "", "", "it is host, domain or under:PREFIX"),
        ("page", "", "", "it is host, domain or under:PREFIX"),
        ("host:a.example", "", "", "it is host, domain or under:PREFIX"),
        ("under:", "", "", "it is host, domain or under:PREFIX"),
        ("under:ftp://a.example/", "", "", "only http and https"),
        ("under:http://", "", "", "SCOPE='under:http://'"),
        ("host", "(", "", "is no regular expression"),
        ("host", "", "[", "is no regular expression"),
        ("host", "a{99999999999999999999}", "", "is no regular expression"),
        ("host", "(" * 5000 + ")" * 5000, "", "is no regular expression"),
    ],
)
def test_what_no_scope_means(scope: str, include: str, exclude: str, why: str) -> None:
    with pytest.raises(Rejected, match=why):
        seed_rule(scope, "http://a.example/", include, exclude)


def test_scopes_with_the_same_rules_have_the_same_text() -> None:
    one, two = Rule("host", "a.example"), Rule("domain", "b.example")
    assert Scope((one,)).widened([two]).dump() == Scope((two,)).widened([one, two]).dump()
    assert Scope((one,)).widened([one]).dump() == Scope((one,)).dump()
    assert not Scope(()).admits("http://a.example/")


def test_requisites_widen_a_scope_and_admit_no_page() -> None:
    plain = Scope((Rule("host", "example.org"),))
    wider = plain.widened([REQUISITES])
    assert (False, True) == (plain.has_requisites, wider.has_requisites)
    assert not wider.admits("https://example.net/")
    assert wider == load(wider.dump())


@pytest.mark.parametrize(
    ("rules", "hosts"),
    [
        ([Rule("host", "a.example")], "host:a.example"),
        ([Rule("host", "[::1]"), REQUISITES], "host:[::1]"),
        ([Rule("host", "b.example"), Rule("domain", "example.org")], "domain:example.org host:b.example"),
        ([], ""),
        ([REQUISITES], ""),
        ([Rule("host", "a.example", include="x")], ""),
        ([Rule("host", "a.example"), Rule("host", "b.example", exclude="x")], ""),
        ([Rule("under", "a.example/x")], ""),
        ([Rule("host", 'a".example')], ""),  # would have to be encoded in a job
        ([Rule("host", f"{number}.example") for number in range(HOSTS_LENGTH)], ""),
    ],
)
def test_the_hosts_of_a_scope_are_told_where_they_alone_decide(rules: list[Rule], hosts: str) -> None:
    assert hosts == Scope(()).widened(rules).hosts


@pytest.mark.parametrize(("scope", "seed", "include", "exclude", "inside", "outside"), SCOPES)
def test_the_hosts_admit_what_the_scope_admits(
    scope: str, seed: str, include: str, exclude: str, inside: str, outside: str
) -> None:
    rules = Scope((seed_rule(scope, seed, include, exclude), Rule("domain", "other.example")))
    for url in (inside, outside, "https://x.other.example/", "http://[::1]:8080/") if rules.hosts else ():
        assert rules.admits(url) == admits(rules.hosts, site_of(url))
