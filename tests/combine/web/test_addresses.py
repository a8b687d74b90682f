import pytest

from combine.web.addresses import Allowed, Refused, canonical, is_private, kind_of

PRIVATE = [
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "100.127.255.255",
    "169.254.1.1",
    "169.254.169.254",
    "168.63.129.16",
    "100.100.100.200",
    "192.0.0.192",
    "192.0.2.1",
    "198.18.0.1",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "192.88.99.1",
    "::",
    "::1",
    "fc00::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fe80::1",
    "fe80::1%eth0",
    "febf::1",
    "fec0::1",
    "ff02::1",
    "2001:db8::1",
    "3fff::1",
    "100::1",
    "4000::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:7f00:1",
    "::127.0.0.1",
    "::ffff:0:127.0.0.1",
    "2002:7f00:1::",
    "2002:a00:1::1",
    "64:ff9b::7f00:1",
    "64:ff9b::10.0.0.1",
    "64:ff9b:1::808:808",
    "2001:0:7f00:1::",
    "2001:0:808:808:0:0:80ff:fffe",
    "2001:10::1",
]
PUBLIC = [
    "8.8.8.8",
    "1.1.1.1",
    "93.184.215.14",
    "172.15.0.1",
    "172.32.0.1",
    "100.63.255.255",
    "100.128.0.1",
    "192.0.1.1",
    "223.255.255.255",
    "198.20.0.1",
    "2606:4700:4700::1111",
    "2a00:1450:4001:80b::200e",
    "2400::1",
    "::ffff:8.8.8.8",
    "2002:808:808::",
    "64:ff9b::8.8.8.8",
    "2001:0:808:808:0:0:f7f7:f7f7",
    "2001:4860:4860::8888",
]
NONE = ["", "localhost", "127.1", "2130706433", "0x7f.0.0.1", "0177.0.0.1", "1.2.3.4:80", "[::1]", "1.2.3", "::g"]


@pytest.mark.parametrize("address", PRIVATE)
def test_refuses_what_is_not_public(address: str) -> None:
    assert is_private(address)
    assert not Allowed([]).permits("a.example", address)
    assert not Allowed([]).listed("a.example", address)


@pytest.mark.parametrize("address", PUBLIC)
def test_permits_public_addresses(address: str) -> None:
    assert "" == kind_of(address)
    assert Allowed([]).permits("a.example", address)
    assert not Allowed(["0.0.0.0/0", "::/0"]).listed("a.example", address), "a public address needs no listing"


@pytest.mark.parametrize("address", NONE)
def test_refuses_what_is_no_address(address: str) -> None:
    assert is_private(address)
    assert not Allowed(["127.0.0.0/8"]).permits("a.example", address)


@pytest.mark.parametrize(
    ("entry", "host", "address", "permitted"),
    [
        ("127.0.0.0/8", "127.0.0.21", "127.0.0.21", True),
        ("127.0.0.0/8", "a.example", "::ffff:127.0.0.21", True),
        ("127.0.0.21", "127.0.0.21", "127.0.0.21", True),
        ("127.0.0.21", "127.0.0.22", "127.0.0.22", False),
        ("127.0.0.21:8000", "127.0.0.21", "127.0.0.21", True),
        (" 127.0.0.21 ", "127.0.0.21", "127.0.0.21", True),
        ("::1", "::1", "::1", True),
        ("[::1]", "::1", "::1", True),
        ("[::1]:8000", "::1", "::1", True),
        ("fd00::/8", "a.example", "fd12::1", True),
        ("localhost", "localhost", "127.0.0.1", True),
        ("localhost", "LOCALHOST.", "::1", True),
        ("Intranet.Example:8080", "intranet.example", "10.0.0.1", True),
        ("localhost", "other.example", "127.0.0.1", False),
        ("example", "a.example", "10.0.0.1", False),
        ("10.0.0.0/8", "a.example", "2002:a00:1::", True),
        ("10.0.0.0/8", "a.example", "2001:0:a00:1::", False),
    ],
)
def test_listed_exceptions(entry: str, host: str, address: str, permitted: bool) -> None:
    allowed = Allowed([entry])
    assert permitted == allowed.permits(host, address)
    assert permitted == allowed.listed(host, address)


def test_refusal_prints_the_line_to_set() -> None:
    with pytest.raises(Refused) as refusal:
        Allowed([]).check("127.0.0.21", "127.0.0.21")
    sentence = str(refusal.value)
    assert 'harvest.allow_private = ["127.0.0.21"]' in sentence
    assert "--allow-private 127.0.0.21" in sentence
    assert "a loopback address" in sentence
    assert "\n" not in sentence


@pytest.mark.parametrize(
    ("address", "spelling"),
    [("127.0.0.1", "127.0.0.1"), ("::ffff:7f00:1", "127.0.0.1"), ("0:0::1", "::1"), ("x", "x")],
)
def test_canonical(address: str, spelling: str) -> None:
    assert spelling == canonical(address)
