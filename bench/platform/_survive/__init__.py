"""The survival rounds of bench/platform/survive.py and tests/cluster/test_survive.py."""
