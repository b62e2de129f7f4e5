/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for dumps of operators' tensors (trace/dump_config.h). */
#include "acl/acl_mdl.h"

#include "api/api.h"
#include "runtime/process.h"

aclError aclmdlInitDump(void) { API(process_dump_init()); }
aclError aclmdlSetDump(const char *dumpCfgPath) { API(process_dump_set(dumpCfgPath)); }
aclError aclmdlFinalizeDump(void) { API(process_dump_finalize()); }
