/* SPDX-License-Identifier: Apache-2.0 */
#include "base/threads.h"

_Atomic int threads_of_library;
