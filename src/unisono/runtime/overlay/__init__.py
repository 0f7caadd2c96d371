"""Peers that talk by datagrams, without a broker."""
