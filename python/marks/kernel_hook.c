/* SPDX-License-Identifier: Apache-2.0 */
/* libascend_kernel_hook.so: an empty library. torch_npu and MindSpore tell of each tensor by mstx if LD_PRELOAD names a
 * library of this name, which is otherwise that of CANN's memory tools. */
extern const char cannon_kernel_hook[];
const char cannon_kernel_hook[] = "cannon";
