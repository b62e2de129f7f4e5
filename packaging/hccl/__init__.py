# SPDX-License-Identifier: Apache-2.0
"""The Python package `hccl` of CANN, of which MindSpore asks the version before it uses HCCL."""
