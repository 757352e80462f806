"""A pytest plugin that tells taskflow's own tests where the servers are.

They look for a server at localhost:2181 when they are imported, and skip what needs one if
none answers. The variable COMPAT_HOSTS has the servers to use instead.
"""
import os

from taskflow.tests import utils

utils.ZK_TEST_CONFIG["hosts"] = os.environ["COMPAT_HOSTS"].split(",")
utils.ZK_TEST_CONFIG["timeout"] = 10.0
