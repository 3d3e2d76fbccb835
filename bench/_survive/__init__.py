"""The survival rounds of bench/survive.py and tests/cluster/test_survive.py."""
