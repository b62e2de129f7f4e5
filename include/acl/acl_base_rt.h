/* SPDX-License-Identifier: Apache-2.0
 *
 * CANN 9 keeps the part of acl_base.h that the runtime needs under this name; here both are one. */
#ifndef ACL_ACL_BASE_RT_H
#define ACL_ACL_BASE_RT_H

#include "acl_base.h"

#endif
