"""Tests of the engine: the real store on SQLite, the simulated cluster, a virtual clock."""
