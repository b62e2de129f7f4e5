# SPDX-License-Identifier: Apache-2.0
"""The version that MindSpore knows, as in the package `te`."""
__sys_version__ = '8.5.0'
