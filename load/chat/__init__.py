"""Parses a chat stream. Pure: no sockets, no clock, no gevent."""
