/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for models that there are not here: with queues in place of datasets, several in one file, and files for
 * machines without a host. Each says so. */
#include "api/model/mdl.h"

static status no_queues(void) {
  return fail(ST_UNSUPPORTED, "models with queues are not supported; aclmdlLoadFromFile and datasets do the same");
}

aclError aclmdlLoadFromFileWithQ(const char *modelPath, uint32_t *modelId, const uint32_t *inputQ, size_t inputQNum,
                                 const uint32_t *outputQ, size_t outputQNum) {
  API_ENTER();
  NEED(modelPath);
  NEED(modelId);
  (void)inputQ, (void)inputQNum, (void)outputQ, (void)outputQNum;
  API_REFUSE(no_queues());
}

aclError aclmdlLoadFromMemWithQ(const void *model, size_t modelSize, uint32_t *modelId, const uint32_t *inputQ,
                                size_t inputQNum, const uint32_t *outputQ, size_t outputQNum) {
  API_ENTER();
  NEED(model);
  NEED(modelId);
  (void)modelSize, (void)inputQ, (void)inputQNum, (void)outputQ, (void)outputQNum;
  API_REFUSE(no_queues());
}

aclError aclmdlQueryExeOMDesc(const char *fileName, aclmdlExeOMDesc *mdlPartitionSize) {
  API_ENTER();
  NEED(fileName);
  NEED(mdlPartitionSize);
  API_REFUSE(fail(ST_UNSUPPORTED, "%s: .exeom files are for machines without a host, and are not supported", fileName));
}

static status no_bundles(void) {
  return fail(ST_UNSUPPORTED, "bundles, which only aclgrphBundleBuildModel makes, are not supported");
}

aclError aclmdlBundleLoadFromFile(const char *modelPath, uint32_t *bundleId) {
  API_ENTER();
  NEED(modelPath);
  NEED(bundleId);
  API_REFUSE(no_bundles());
}

aclError aclmdlBundleLoadFromMem(const void *model, size_t modelSize, uint32_t *bundleId) {
  API_ENTER();
  NEED(model);
  NEED(bundleId);
  (void)modelSize;
  API_REFUSE(no_bundles());
}

aclError aclmdlBundleGetModelNum(uint32_t bundleId, size_t *modelNum) {
  API_ENTER();
  NEED(modelNum);
  (void)bundleId;
  API_REFUSE(no_bundles());
}

aclError aclmdlBundleGetModelId(uint32_t bundleId, size_t index, uint32_t *modelId) {
  API_ENTER();
  NEED(modelId);
  (void)bundleId, (void)index;
  API_REFUSE(no_bundles());
}

aclError aclmdlBundleUnload(uint32_t bundleId) {
  API_ENTER();
  (void)bundleId;
  API_REFUSE(no_bundles());
}

/* A model is one task here, so a failed one has no operator's name and tensors to tell; the message of the failure
 * names the node. */
aclError aclmdlCreateAndGetOpDesc(uint32_t deviceId, uint32_t streamId, uint32_t taskId, char *opName, size_t opNameLen,
                                  aclTensorDesc **inputDesc, size_t *numInputs, aclTensorDesc **outputDesc,
                                  size_t *numOutputs) {
  API_ENTER();
  NEED(opName);
  NEED(inputDesc);
  NEED(numInputs);
  NEED(outputDesc);
  NEED(numOutputs);
  (void)deviceId, (void)opNameLen;
  API_REFUSE(fail(ST_UNSUPPORTED, "task %u of stream %u has no description of its operator; its message names the node",
                  taskId, streamId));
}

/* The only attribute that CANN documents names the operators that were joined in one. Nothing here keeps them. */
const char *aclmdlGetOpAttr(aclmdlDesc *modelDesc, const char *opName, const char *attr) {
  API_ENTER();
  return modelDesc && opName && attr ? "" : NULL;
}
