/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points that load and launch kernels as machine code of an NPU, which nothing here can run. They exist because
 * clients link them (torch_npu from 2.8 on, MindSpore) for features that they use rarely or never. All refuse, so no
 * header declares them. */
#include "api/api.h"

typedef struct aclrtPlaceHolderInfo aclrtPlaceHolderInfo;

ACL_FUNC_VISIBILITY aclError aclrtBinaryLoadFromData(const void *data, size_t length,
                                                     const aclrtBinaryLoadOptions *options, aclrtBinHandle *binHandle);
ACL_FUNC_VISIBILITY aclError aclrtBinaryGetFunction(const aclrtBinHandle binHandle, const char *kernelName,
                                                    aclrtFuncHandle *funcHandle);
ACL_FUNC_VISIBILITY aclError aclrtGetFunctionAddr(aclrtFuncHandle funcHandle, void **aicAddr, void **aivAddr);

ACL_FUNC_VISIBILITY aclError aclrtLaunchKernelWithHostArgs(aclrtFuncHandle funcHandle, uint32_t numBlocks,
                                                           aclrtStream stream, aclrtLaunchKernelCfg *cfg,
                                                           void *hostArgs, size_t argsSize,
                                                           aclrtPlaceHolderInfo *placeHolderArray,
                                                           size_t placeHolderNum);
ACL_FUNC_VISIBILITY aclError aclrtGetHardwareSyncAddr(void **addr);
ACL_FUNC_VISIBILITY int rtDevBinaryRegister(const void *binary, void **handle);
ACL_FUNC_VISIBILITY int rtDevBinaryUnRegister(void *handle);
ACL_FUNC_VISIBILITY int rtFunctionRegister(void *binary, const void *stub, const char *name, const void *info,
                                           uint32_t mode);
ACL_FUNC_VISIBILITY int rtKernelLaunch(const void *stub, uint32_t n_blocks, void *args, uint32_t args_bytes,
                                       void *sm_desc, void *stream);
ACL_FUNC_VISIBILITY int rtLaunch(const void *stub);
ACL_FUNC_VISIBILITY int rtGetC2cCtrlAddr(uint64_t *address, uint32_t *bytes);

static status refuse_code(void) {
  return fail(ST_NOT_SUPPORTED, "kernels in machine code of an NPU cannot be loaded or launched: there is no NPU");
}

aclError aclrtBinaryLoadFromData(const void *data, size_t length, const aclrtBinaryLoadOptions *options,
                                 aclrtBinHandle *binHandle) {
  API_ENTER();
  (void)data, (void)length, (void)options;
  NEED(binHandle);
  *binHandle = NULL;
  API_REFUSE(refuse_code());
}

aclError aclrtBinaryGetFunction(const aclrtBinHandle binHandle, const char *kernelName, aclrtFuncHandle *funcHandle) {
  API_ENTER();
  (void)binHandle, (void)kernelName;
  NEED(funcHandle);
  *funcHandle = NULL;
  API_REFUSE(refuse_code());
}

aclError aclrtGetFunctionAddr(aclrtFuncHandle funcHandle, void **aicAddr, void **aivAddr) {
  API_ENTER();
  (void)funcHandle, (void)aicAddr, (void)aivAddr;
  API_REFUSE(refuse_code());
}

aclError aclrtLaunchKernelWithHostArgs(aclrtFuncHandle funcHandle, uint32_t numBlocks, aclrtStream stream,
                                       aclrtLaunchKernelCfg *cfg, void *hostArgs, size_t argsSize,
                                       aclrtPlaceHolderInfo *placeHolderArray, size_t placeHolderNum) {
  API_ENTER();
  (void)funcHandle, (void)numBlocks, (void)stream, (void)cfg, (void)hostArgs, (void)argsSize;
  (void)placeHolderArray, (void)placeHolderNum;
  API_REFUSE(refuse_code());
}

/* The address by which the cores of an NPU wait for each other. */
aclError aclrtGetHardwareSyncAddr(void **addr) {
  API_ENTER();
  NEED(addr);
  *addr = NULL;
  API_REFUSE(refuse_code());
}

/* The functions from here on are those of libruntime.so, the runtime's own library. */
int rtDevBinaryRegister(const void *binary, void **handle) {
  API_ENTER();
  (void)binary;
  NEED(handle);
  *handle = NULL;
  API_REFUSE(refuse_code());
}

int rtDevBinaryUnRegister(void *handle) {
  API_ENTER();
  (void)handle;
  API_REFUSE(refuse_code());
}

int rtFunctionRegister(void *binary, const void *stub, const char *name, const void *info, uint32_t mode) {
  API_ENTER();
  (void)binary, (void)stub, (void)name, (void)info, (void)mode;
  API_REFUSE(refuse_code());
}

int rtKernelLaunch(const void *stub, uint32_t n_blocks, void *args, uint32_t args_bytes, void *sm_desc, void *stream) {
  API_ENTER();
  (void)stub, (void)n_blocks, (void)args, (void)args_bytes, (void)sm_desc, (void)stream;
  API_REFUSE(refuse_code());
}

int rtLaunch(const void *stub) {
  API_ENTER();
  (void)stub;
  API_REFUSE(refuse_code());
}

/* The address by which such kernels' blocks synchronise. */
int rtGetC2cCtrlAddr(uint64_t *address, uint32_t *bytes) {
  API_ENTER();
  (void)address, (void)bytes;
  API_REFUSE(refuse_code());
}
