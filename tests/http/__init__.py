"""Tests of the HTTP API over real sockets, on a real store and engine."""
