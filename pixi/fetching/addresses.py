"""Which addresses of the internet are public: where what strangers name may lead."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

_CLOSED_4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this host
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # behind a carrier's NAT; a cloud's metadata too
            "127.0.0.0/8",  # loopback
            "168.63.129.16/32",  # what serves the machines of a cloud, though it looks public
            "169.254.0.0/16",  # link-local; the metadata of most clouds
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments; a cloud's metadata too
            "192.0.2.0/24",  # documentation
            "192.52.193.0/24",  # multicast tunnels
            "192.88.99.0/24",  # relays of 6to4
            "192.168.0.0/16",  # private
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, broadcast
        ),
    )
)
_OPEN_6 = IPv6Network("2000::/3")
"""All of IPv6 that hosts of the internet have; what is mapped, local or multicast lies outside."""
_CLOSED_6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments, Teredo among them
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4
            "3fff::/20",  # documentation
        ),
    )
)
_TRANSLATED = IPv6Network("64:ff9b::/96")
"""How a network that speaks IPv6 alone reaches the hosts of IPv4."""
_OWN_6 = 56
"""Bits that the addresses of one network of IPv6 share: so much a provider gives a household or a company."""


def is_public(address: str) -> bool:
    """Return True if anybody on the internet could ask what is there; False for what is no plain address."""
    try:
        four = IPv4Address(address)
    except ValueError:
        return _is_public_6(address)
    return not any(four in network for network in _CLOSED_4)


def is_near(address: str, own: str) -> bool:
    """Return True if an address is this machine's own, or in IPv6 of its own network.

    There every printer has an address of the internet, and a router that keeps everybody else away from it.

    Args:
        address: public or not.
        own: by which this machine would ask there.
    """
    if address == own:
        return True
    try:
        return IPv6Address(address) in IPv6Network((own, _OWN_6), strict=False)
    except ValueError:  # one of them is of IPv4
        return False


def _is_public_6(address: str) -> bool:
    try:
        six = IPv6Address(address)
    except ValueError:
        return False
    if six.scope_id is not None:
        return False
    if six in _TRANSLATED:
        return is_public(str(IPv4Address(int(six) & 0xFFFFFFFF)))
    return six in _OPEN_6 and not any(six in network for network in _CLOSED_6)
