/* SPDX-License-Identifier: Apache-2.0
 *
 * CANN 9 has the part of acl_base.h that the runtime needs under this name. Here the two headers are the same. */
#ifndef ACL_ACL_BASE_RT_H
#define ACL_ACL_BASE_RT_H

#include "acl_base.h"

#endif
