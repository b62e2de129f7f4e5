/* SPDX-License-Identifier: Apache-2.0
 *
 * Models: .om files, which atc makes of ONNX models. Model running instances: tasks that are captured from streams and
 * can then be executed any number of times. Dumps of operators' tensors into files. What the start of acl_rt.h says
 * about all functions applies here, too.
 *
 * Capture. Between aclmdlRICaptureBegin and aclmdlRICaptureEnd, what is submitted to the stream becomes part of the
 * instance and does not run: operators, asynchronous copies and fills, host functions and callbacks, writes of
 * values and waits for them, records of events and waits for them. An execution of the instance uses the device
 * memory and pinned memory at the captured addresses, so these blocks must stay until the instance is destroyed;
 * aclTensors and executors may be destroyed. A block of a pool that is freed in a captured stream is freed when the
 * instance is destroyed.
 *
 * Other streams. A stream that waits for an event recorded in a captured stream is captured, too. It must be joined
 * again: the first stream, or another one that is joined, waits for an event recorded after its last task. Such
 * events are created by aclrtCreateEventExWithFlag with ACL_EVENT_SYNC. Events that streams outside record or wait
 * for while the instance is executed are created by aclrtCreateEventWithFlag with ACL_EVENT_EXTERNAL, or used with
 * aclrtRecordEventWithFlag and aclrtStreamWaitEventWithFlag.
 *
 * The following is forbidden during a capture and makes it invalid, so that aclmdlRICaptureEnd fails:
 *   - waiting for a captured stream, its context or its device, or querying its state (ACL_ERROR_RT_STREAM_CAPTURED);
 *     the same for an event recorded in it (ACL_ERROR_RT_EVENT_CAPTURED);
 *   - letting it wait for an event recorded outside (ACL_ERROR_RT_CAPTURE_DEPENDENCY) or in another capture
 *     (ACL_ERROR_STREAM_CAPTURE_CONFLICT); using the default stream (ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT);
 *   - synchronous copies and fills (ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT), and asynchronous ones of memory that is not
 *     pinned (ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC). Whom this concerns depends on the capture's mode: GLOBAL, all
 *     threads of the context except those whose own mode is THREAD_LOCAL or RELAXED; THREAD_LOCAL, the capturing
 *     thread; RELAXED, none. The capturing thread is also exempt if its own mode is RELAXED. */
#ifndef ACL_ACL_MDL_H
#define ACL_ACL_MDL_H

#include "acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ACL_MAX_DIM_CNT         128
#define ACL_MAX_TENSOR_NAME_LEN 128
#define ACL_MAX_BATCH_NUM       128
#define ACL_MAX_HW_NUM          128
#define ACL_MAX_SHAPE_COUNT     128
#define ACL_DIM_ENDPOINTS       2

/* A description of a model, and the buffers of its inputs or outputs. Both are opaque. */
typedef struct aclmdlDesc aclmdlDesc;
typedef struct aclmdlDataset aclmdlDataset;

/* Name and dimensions of an input or output; -1: the dimension is open. A scalar has dimCount 0. */
typedef struct aclmdlIODims {
  char name[ACL_MAX_TENSOR_NAME_LEN];
  size_t dimCount;
  int64_t dims[ACL_MAX_DIM_CNT];
} aclmdlIODims;

/* The least and the largest size of each dimension; -1: no limit. */
typedef struct aclmdlIODimsRange {
  size_t rangeCount;
  int64_t range[ACL_MAX_DIM_CNT][ACL_DIM_ENDPOINTS];
} aclmdlIODimsRange;

/* Sizes of batches, and heights and widths, that a model was made for; none (0) for models without such gears. */
typedef struct aclmdlBatch {
  size_t batchCount;
  uint64_t batch[ACL_MAX_BATCH_NUM];
} aclmdlBatch;

typedef struct aclmdlHW {
  size_t hwCount;
  uint64_t hw[ACL_MAX_HW_NUM][2];
} aclmdlHW;

/* Loads a model onto the device of the current context, from a file or from host memory that may be freed afterwards.
 * *modelId: its number in the process. Errors: ACL_ERROR_INVALID_PARAM for NULL; ACL_ERROR_GE_EXEC_MODEL_PATH_INVALID
 * for a file that cannot be read; ACL_ERROR_PARSE_FILE for what is no model, or one made for an NPU; 500002 for a node
 * that cannot be run, which the message names; ACL_ERROR_RT_MEMORY_ALLOCATION. */
ACL_FUNC_VISIBILITY aclError aclmdlLoadFromFile(const char *modelPath, uint32_t *modelId);
ACL_FUNC_VISIBILITY aclError aclmdlLoadFromMem(const void *model, size_t modelSize, uint32_t *modelId);

/* The same with device memory of the caller's, which must stay until the model is unloaded, in the sizes that
 * aclmdlQuerySize tells. NULL: the library's own for that part. Models that do not run at the same time may share work
 * memory. Errors besides: ACL_ERROR_GE_PARAM_INVALID: a size is too small. */
ACL_FUNC_VISIBILITY aclError aclmdlLoadFromFileWithMem(const char *modelPath, uint32_t *modelId, void *workPtr,
                                                       size_t workSize, void *weightPtr, size_t weightSize);
ACL_FUNC_VISIBILITY aclError aclmdlLoadFromMemWithMem(const void *model, size_t modelSize, uint32_t *modelId,
                                                      void *workPtr, size_t workSize, void *weightPtr,
                                                      size_t weightSize);

/* Unloads a model once its queued executions have run. ACL_ERROR_GE_EXEC_MODEL_ID_INVALID for an unknown number. */
ACL_FUNC_VISIBILITY aclError aclmdlUnload(uint32_t modelId);

/* The bytes of work and weight memory that a model needs. ACL_ERROR_GE_PARAM_INVALID: its shapes are open. */
ACL_FUNC_VISIBILITY aclError aclmdlQuerySize(const char *fileName, size_t *workSize, size_t *weightSize);
ACL_FUNC_VISIBILITY aclError aclmdlQuerySizeFromMem(const void *model, size_t modelSize, size_t *workSize,
                                                    size_t *weightSize);

/* Creates an empty description (NULL: no host memory), which the caller destroys; and fills it for a loaded model, or
 * for one that is only looked at. */
ACL_FUNC_VISIBILITY aclmdlDesc *aclmdlCreateDesc(void);
ACL_FUNC_VISIBILITY aclError aclmdlDestroyDesc(aclmdlDesc *modelDesc);
ACL_FUNC_VISIBILITY aclError aclmdlGetDesc(aclmdlDesc *modelDesc, uint32_t modelId);
ACL_FUNC_VISIBILITY aclError aclmdlGetDescFromFile(aclmdlDesc *modelDesc, const char *modelPath);
ACL_FUNC_VISIBILITY aclError aclmdlGetDescFromMem(aclmdlDesc *modelDesc, const void *model, size_t modelSize);

/* Numbers of inputs and outputs; 0 for NULL. */
ACL_FUNC_VISIBILITY size_t aclmdlGetNumInputs(aclmdlDesc *modelDesc);
ACL_FUNC_VISIBILITY size_t aclmdlGetNumOutputs(aclmdlDesc *modelDesc);

/* Bytes of an input or output; 0 where its shape is open, and for a wrong index. */
ACL_FUNC_VISIBILITY size_t aclmdlGetInputSizeByIndex(aclmdlDesc *modelDesc, size_t index);
ACL_FUNC_VISIBILITY size_t aclmdlGetOutputSizeByIndex(aclmdlDesc *modelDesc, size_t index);

/* Names; NULL for a wrong index. An output's is "node:index:name". They live as long as the description. */
ACL_FUNC_VISIBILITY const char *aclmdlGetInputNameByIndex(const aclmdlDesc *modelDesc, size_t index);
ACL_FUNC_VISIBILITY const char *aclmdlGetOutputNameByIndex(const aclmdlDesc *modelDesc, size_t index);

/* The index of a name; an output's own name counts, too. ACL_ERROR_INVALID_PARAM: there is none. */
ACL_FUNC_VISIBILITY aclError aclmdlGetInputIndexByName(const aclmdlDesc *modelDesc, const char *name, size_t *index);
ACL_FUNC_VISIBILITY aclError aclmdlGetOutputIndexByName(const aclmdlDesc *modelDesc, const char *name, size_t *index);

/* Dimensions; of an open one -1. */
ACL_FUNC_VISIBILITY aclError aclmdlGetInputDims(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims);
ACL_FUNC_VISIBILITY aclError aclmdlGetInputDimsV2(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims);
ACL_FUNC_VISIBILITY aclError aclmdlGetInputDimsRange(const aclmdlDesc *modelDesc, size_t index,
                                                     aclmdlIODimsRange *dimsRange);
ACL_FUNC_VISIBILITY aclError aclmdlGetOutputDims(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims);

/* The dimensions of an output: in the gear that was chosen last, or the largest; an error for open shapes. */
ACL_FUNC_VISIBILITY aclError aclmdlGetCurOutputDims(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims);

/* Formats (NCHW for four dimensions, otherwise ND) and types; UNDEFINED for a wrong index. */
ACL_FUNC_VISIBILITY aclFormat aclmdlGetInputFormat(const aclmdlDesc *modelDesc, size_t index);
ACL_FUNC_VISIBILITY aclFormat aclmdlGetOutputFormat(const aclmdlDesc *modelDesc, size_t index);
ACL_FUNC_VISIBILITY aclDataType aclmdlGetInputDataType(const aclmdlDesc *modelDesc, size_t index);
ACL_FUNC_VISIBILITY aclDataType aclmdlGetOutputDataType(const aclmdlDesc *modelDesc, size_t index);

/* The whole name of an input or output whose name in aclmdlIODims was cut; any other name is returned as it is. */
ACL_FUNC_VISIBILITY const char *aclmdlGetTensorRealName(const aclmdlDesc *modelDesc, const char *name);

/* Creates an empty dataset (NULL: no host memory). It owns neither its buffers nor their memory: the caller destroys
 * them, and the dataset. */
ACL_FUNC_VISIBILITY aclmdlDataset *aclmdlCreateDataset(void);
ACL_FUNC_VISIBILITY aclError aclmdlDestroyDataset(const aclmdlDataset *dataset);

/* Appends a buffer, in the order of the model's inputs or outputs. */
ACL_FUNC_VISIBILITY aclError aclmdlAddDatasetBuffer(aclmdlDataset *dataset, aclDataBuffer *dataBuffer);
ACL_FUNC_VISIBILITY size_t aclmdlGetDatasetNumBuffers(const aclmdlDataset *dataset);
ACL_FUNC_VISIBILITY aclDataBuffer *aclmdlGetDatasetBuffer(const aclmdlDataset *dataset, size_t index);

/* Sets the shape of an input of open shape, from a description that is copied; and returns the dataset's own
 * description of a buffer: for an output, its shape after an execution. NULL: there is none. */
ACL_FUNC_VISIBILITY aclError aclmdlSetDatasetTensorDesc(aclmdlDataset *dataset, aclTensorDesc *tensorDesc,
                                                        size_t index);
ACL_FUNC_VISIBILITY aclTensorDesc *aclmdlGetDatasetTensorDesc(const aclmdlDataset *dataset, size_t index);

/* Runs the model and waits. An output whose buffer has address NULL and size 0 gets device memory, which the caller
 * frees with aclrtFree. Errors: ACL_ERROR_GE_EXEC_MODEL_ID_INVALID; ACL_ERROR_MODEL_INPUT_NOT_MATCH and
 * ACL_ERROR_MODEL_OUTPUT_NOT_MATCH: a buffer is too small or no device memory; ACL_ERROR_GE_SHAPE_INVALID: a shape does
 * not fit; failures of operators. */
ACL_FUNC_VISIBILITY aclError aclmdlExecute(uint32_t modelId, const aclmdlDataset *input, aclmdlDataset *output);

/* Queues an execution. The buffers must stay until it has run, the datasets need not. Executions of one model run one
 * after the other, in whatever streams. A model whose shapes depend on the contents of an input waits for the stream
 * first. */
ACL_FUNC_VISIBILITY aclError aclmdlExecuteAsync(uint32_t modelId, const aclmdlDataset *input, aclmdlDataset *output,
                                                aclrtStream stream);

/* Attributes of a load. Values are read through a pointer, in the type that ends the name: int32_t, size_t or a
 * pointer. Those of queues and of device code are refused (ACL_ERROR_FEATURE_UNSUPPORTED). */
typedef enum {
  ACL_MDL_PRIORITY_INT32 = 0, /* 0 (highest) to 7; without effect */
  ACL_MDL_LOAD_TYPE_SIZET,    /* 1: from a file, 2: with the caller's memory, 3: from memory, 4: with the caller's */
  ACL_MDL_PATH_PTR,
  ACL_MDL_MEM_ADDR_PTR,
  ACL_MDL_MEM_SIZET,
  ACL_MDL_WEIGHT_ADDR_PTR,
  ACL_MDL_WEIGHT_SIZET,
  ACL_MDL_WORKSPACE_ADDR_PTR,
  ACL_MDL_WORKSPACE_SIZET,
  ACL_MDL_INPUTQ_NUM_SIZET,
  ACL_MDL_INPUTQ_ADDR_PTR,
  ACL_MDL_OUTPUTQ_NUM_SIZET,
  ACL_MDL_OUTPUTQ_ADDR_PTR,
  ACL_MDL_WORKSPACE_MEM_OPTIMIZE, /* 0 or 1; without effect: inputs and outputs are never part of the work memory */
  ACL_MDL_WEIGHT_PATH_PTR,        /* the folder of external weights of a model in memory */
  ACL_MDL_MODEL_DESC_PTR,
  ACL_MDL_MODEL_DESC_SIZET,
  ACL_MDL_KERNEL_PTR,
  ACL_MDL_KERNEL_SIZET,
  ACL_MDL_KERNEL_ARGS_PTR,
  ACL_MDL_KERNEL_ARGS_SIZET,
  ACL_MDL_STATIC_TASK_PTR,
  ACL_MDL_STATIC_TASK_SIZET,
  ACL_MDL_DYNAMIC_TASK_PTR,
  ACL_MDL_DYNAMIC_TASK_SIZET,
  ACL_MDL_MEM_MALLOC_POLICY_SIZET,
  ACL_MDL_FIFO_PTR,
  ACL_MDL_FIFO_SIZET,
} aclmdlConfigAttr;

/* Attributes of an execution. */
typedef enum {
  ACL_MDL_STREAM_SYNC_TIMEOUT = 0, /* int32_t, ms; -1: no limit */
  ACL_MDL_EVENT_SYNC_TIMEOUT,      /* likewise; without effect */
  ACL_MDL_WORK_ADDR_PTR,           /* work memory of this execution, and its bytes */
  ACL_MDL_WORK_SIZET,
  ACL_MDL_MPAIMID_SIZET, /* this and the following are reserved */
  ACL_MDL_AICQOS_SIZET,
  ACL_MDL_AICOST_SIZET,
  ACL_MDL_MEC_TIMETHR_SIZET,
} aclmdlExecConfigAttr;

typedef struct aclmdlConfigHandle aclmdlConfigHandle;
typedef struct aclmdlExecConfigHandle aclmdlExecConfigHandle;

/* Loads a model as attributes say. The caller destroys the handle. Errors: ACL_ERROR_INVALID_PARAM: a size that does
 * not fit the attribute's type, or an attribute that is missing, which the message names. */
ACL_FUNC_VISIBILITY aclmdlConfigHandle *aclmdlCreateConfigHandle(void);
ACL_FUNC_VISIBILITY aclError aclmdlDestroyConfigHandle(aclmdlConfigHandle *handle);
ACL_FUNC_VISIBILITY aclError aclmdlSetConfigOpt(aclmdlConfigHandle *handle, aclmdlConfigAttr attr,
                                                const void *attrValue, size_t valueSize);
ACL_FUNC_VISIBILITY aclError aclmdlSetExternalWeightAddress(aclmdlConfigHandle *handle, const char *weightFileName,
                                                            void *devPtr, size_t size);
ACL_FUNC_VISIBILITY aclError aclmdlLoadWithConfig(const aclmdlConfigHandle *handle, uint32_t *modelId);

/* As aclmdlExecute, in a stream, and as aclmdlExecuteAsync, which here needs a stream, with attributes; handle may be
 * NULL. ACL_ERROR_GE_MODEL_EXECUTE_TIMEOUT: the time is over; the execution goes on. */
ACL_FUNC_VISIBILITY aclmdlExecConfigHandle *aclmdlCreateExecConfigHandle(void);
ACL_FUNC_VISIBILITY aclError aclmdlDestroyExecConfigHandle(const aclmdlExecConfigHandle *handle);
ACL_FUNC_VISIBILITY aclError aclmdlSetExecConfigOpt(aclmdlExecConfigHandle *handle, aclmdlExecConfigAttr attr,
                                                    const void *attrValue, size_t valueSize);
ACL_FUNC_VISIBILITY aclError aclmdlExecuteV2(uint32_t modelId, const aclmdlDataset *input, aclmdlDataset *output,
                                             aclrtStream stream, const aclmdlExecConfigHandle *handle);
ACL_FUNC_VISIBILITY aclError aclmdlExecuteAsyncV2(uint32_t modelId, const aclmdlDataset *input, aclmdlDataset *output,
                                                  aclrtStream stream, const aclmdlExecConfigHandle *handle);

/* Gears: sizes of open dimensions that a model was made for (atc's --dynamic_batch_size, --dynamic_image_size and
 * --dynamic_dims). Such a model has one more input, ACL_DYNAMIC_TENSOR_NAME, for which the caller makes a buffer as for
 * the others. Counts are 0 for models without gears of that kind. index: -1. Each of dims has the dimensions of all
 * inputs but the added one in a row; gearCount: its length. */
#define ACL_DYNAMIC_TENSOR_NAME "ascend_mbatch_shape_data"
ACL_FUNC_VISIBILITY aclError aclmdlGetDynamicBatch(const aclmdlDesc *modelDesc, aclmdlBatch *batch);
ACL_FUNC_VISIBILITY aclError aclmdlGetDynamicHW(const aclmdlDesc *modelDesc, size_t index, aclmdlHW *hw);
ACL_FUNC_VISIBILITY aclError aclmdlGetInputDynamicGearCount(const aclmdlDesc *modelDesc, size_t index,
                                                            size_t *gearCount);
ACL_FUNC_VISIBILITY aclError aclmdlGetInputDynamicDims(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims,
                                                       size_t gearCount);

/* Choose the gear in which the model runs with this dataset of inputs, and write its numbers into the buffer of the
 * added input, whose number in the dataset is index. A dataset without a choice runs in the largest gear. dims: the
 * dimensions of all inputs but the added one in a row. Errors: ACL_ERROR_MODEL_NOT_DYNAMIC: the model has no gears of
 * this kind; ACL_ERROR_GE_DYNAMIC_BATCH_SIZE_INVALID: not this one; ACL_ERROR_GE_DYNAMIC_INPUT_ADDR_INVALID: there is
 * no buffer; ACL_ERROR_GE_DYNAMIC_INPUT_LENGTH_INVALID: it has less than 4 bytes for each number. */
ACL_FUNC_VISIBILITY aclError aclmdlSetDynamicBatchSize(uint32_t modelId, aclmdlDataset *dataset, size_t index,
                                                       uint64_t batchSize);
ACL_FUNC_VISIBILITY aclError aclmdlSetDynamicHWSize(uint32_t modelId, aclmdlDataset *dataset, size_t index,
                                                    uint64_t height, uint64_t width);
ACL_FUNC_VISIBILITY aclError aclmdlSetInputDynamicDims(uint32_t modelId, aclmdlDataset *dataset, size_t index,
                                                       const aclmdlIODims *dims);

/* Preparation of pictures in front of a model (atc's --insert_op_conf): an input takes pictures of 8-bit values, of
 * which a part may be cut out, whose channels are swapped, whose colours are converted, and whose values become
 * (value - mean - min) * varReci; a border may be added. Static: all that is part of the model. Dynamic: the model has
 * one more input, ACL_DYNAMIC_AIPP_NAME, into whose buffer aclmdlSetInputAIPP or aclmdlSetAIPPByInputIndex (index: of
 * the picture) write the parameters of each picture of a batch; the last ones hold for further pictures. Supported
 * formats: YUV420SP, XRGB8888, RGB888, YUV400. Pictures are not resized (ACL_ERROR_FEATURE_UNSUPPORTED). Other errors:
 * ACL_ERROR_GE_AIPP_NOT_EXIST, ACL_ERROR_GE_AIPP_MODE_INVALID (the AIPP is static), ACL_ERROR_GE_AIPP_BATCH_EMPTY (an
 * execution without parameters), ACL_ERROR_INVALID_PARAM: a size does not fit. */
#define ACL_DYNAMIC_AIPP_NAME "ascend_dynamic_aipp_data"
typedef enum {
  ACL_YUV420SP_U8 = 1,
  ACL_XRGB8888_U8 = 2,
  ACL_RGB888_U8 = 3,
  ACL_YUV400_U8 = 4,
  ACL_NC1HWC0DI_FP16 = 5,
  ACL_NC1HWC0DI_S8 = 6,
  ACL_ARGB8888_U8 = 7,
  ACL_YUYV_U8 = 8,
  ACL_YUV422SP_U8 = 9,
  ACL_AYUV444_U8 = 10,
  ACL_RAW10 = 11,
  ACL_RAW12 = 12,
  ACL_RAW16 = 13,
  ACL_RAW24 = 14,
  ACL_AIPP_RESERVED = 0xffff,
} aclAippInputFormat;
typedef enum {
  ACL_DATA_WITHOUT_AIPP = 0,
  ACL_DATA_WITH_STATIC_AIPP = 1,
  ACL_DATA_WITH_DYNAMIC_AIPP = 2,
  ACL_DYNAMIC_AIPP_NODE = 3,
} aclmdlInputAippType;
typedef struct aclmdlAIPP aclmdlAIPP;
typedef struct aclAippExtendInfo aclAippExtendInfo;
typedef struct {
  aclmdlIODims srcDims;
  size_t srcSize;
  aclmdlIODims aippOutdims;
  size_t aippOutSize;
} aclAippDims;
typedef struct {
  aclAippInputFormat inputFormat;
  int32_t srcImageSizeW;
  int32_t srcImageSizeH;
  int8_t cropSwitch;
  int32_t loadStartPosW;
  int32_t loadStartPosH;
  int32_t cropSizeW;
  int32_t cropSizeH;
  int8_t resizeSwitch;
  int32_t resizeOutputW;
  int32_t resizeOutputH;
  int8_t paddingSwitch;
  int32_t leftPaddingSize;
  int32_t rightPaddingSize;
  int32_t topPaddingSize;
  int32_t bottomPaddingSize;
  int8_t cscSwitch;
  int8_t rbuvSwapSwitch;
  int8_t axSwapSwitch;
  int8_t singleLineMode;
  int32_t matrixR0C0;
  int32_t matrixR0C1;
  int32_t matrixR0C2;
  int32_t matrixR1C0;
  int32_t matrixR1C1;
  int32_t matrixR1C2;
  int32_t matrixR2C0;
  int32_t matrixR2C1;
  int32_t matrixR2C2;
  int32_t outputBias0;
  int32_t outputBias1;
  int32_t outputBias2;
  int32_t inputBias0;
  int32_t inputBias1;
  int32_t inputBias2;
  int32_t meanChn0;
  int32_t meanChn1;
  int32_t meanChn2;
  int32_t meanChn3;
  float minChn0;
  float minChn1;
  float minChn2;
  float minChn3;
  float varReciChn0;
  float varReciChn1;
  float varReciChn2;
  float varReciChn3;
  aclFormat srcFormat;
  aclDataType srcDatatype;
  size_t srcDimNum;
  size_t shapeCount;
  aclAippDims outDims[128];
  aclAippExtendInfo *aippExtend;
} aclAippInfo;
ACL_FUNC_VISIBILITY aclmdlAIPP *aclmdlCreateAIPP(uint64_t batchSize);
ACL_FUNC_VISIBILITY aclError aclmdlDestroyAIPP(const aclmdlAIPP *aippParmsSet);
ACL_FUNC_VISIBILITY aclError aclmdlGetAippDataSize(uint64_t batchSize, size_t *size);
ACL_FUNC_VISIBILITY aclError aclmdlSetAIPPInputFormat(aclmdlAIPP *aippParmsSet, aclAippInputFormat inputFormat);
ACL_FUNC_VISIBILITY aclError aclmdlSetAIPPSrcImageSize(aclmdlAIPP *aippParmsSet, int32_t srcImageSizeW,
                                                       int32_t srcImageSizeH);
ACL_FUNC_VISIBILITY aclError aclmdlSetAIPPCscParams(aclmdlAIPP *aippParmsSet, int8_t cscSwitch, int16_t cscMatrixR0C0,
                                                    int16_t cscMatrixR0C1, int16_t cscMatrixR0C2, int16_t cscMatrixR1C0,
                                                    int16_t cscMatrixR1C1, int16_t cscMatrixR1C2, int16_t cscMatrixR2C0,
                                                    int16_t cscMatrixR2C1, int16_t cscMatrixR2C2,
                                                    uint8_t cscOutputBiasR0, uint8_t cscOutputBiasR1,
                                                    uint8_t cscOutputBiasR2, uint8_t cscInputBiasR0,
                                                    uint8_t cscInputBiasR1, uint8_t cscInputBiasR2);
ACL_FUNC_VISIBILITY aclError aclmdlSetAIPPRbuvSwapSwitch(aclmdlAIPP *aippParmsSet, int8_t rbuvSwapSwitch);
ACL_FUNC_VISIBILITY aclError aclmdlSetAIPPAxSwapSwitch(aclmdlAIPP *aippParmsSet, int8_t axSwapSwitch);
ACL_FUNC_VISIBILITY aclError aclmdlSetAIPPCropParams(aclmdlAIPP *aippParmsSet, int8_t cropSwitch, int32_t cropStartPosW,
                                                     int32_t cropStartPosH, int32_t cropSizeW, int32_t cropSizeH,
                                                     uint64_t batchIndex);
ACL_FUNC_VISIBILITY aclError aclmdlSetAIPPScfParams(aclmdlAIPP *aippParmsSet, int8_t scfSwitch, int32_t scfInputSizeW,
                                                    int32_t scfInputSizeH, int32_t scfOutputSizeW,
                                                    int32_t scfOutputSizeH, uint64_t batchIndex);
ACL_FUNC_VISIBILITY aclError aclmdlSetAIPPPaddingParams(aclmdlAIPP *aippParmsSet, int8_t paddingSwitch,
                                                        int32_t paddingSizeTop, int32_t paddingSizeBottom,
                                                        int32_t paddingSizeLeft, int32_t paddingSizeRight,
                                                        uint64_t batchIndex);
ACL_FUNC_VISIBILITY aclError aclmdlSetAIPPDtcPixelMean(aclmdlAIPP *aippParmsSet, int16_t dtcPixelMeanChn0,
                                                       int16_t dtcPixelMeanChn1, int16_t dtcPixelMeanChn2,
                                                       int16_t dtcPixelMeanChn3, uint64_t batchIndex);
ACL_FUNC_VISIBILITY aclError aclmdlSetAIPPDtcPixelMin(aclmdlAIPP *aippParmsSet, float dtcPixelMinChn0,
                                                      float dtcPixelMinChn1, float dtcPixelMinChn2,
                                                      float dtcPixelMinChn3, uint64_t batchIndex);
ACL_FUNC_VISIBILITY aclError aclmdlSetAIPPPixelVarReci(aclmdlAIPP *aippParmsSet, float dtcPixelVarReciChn0,
                                                       float dtcPixelVarReciChn1, float dtcPixelVarReciChn2,
                                                       float dtcPixelVarReciChn3, uint64_t batchIndex);
ACL_FUNC_VISIBILITY aclError aclmdlSetInputAIPP(uint32_t modelId, aclmdlDataset *dataset, size_t index,
                                                const aclmdlAIPP *aippParmsSet);
ACL_FUNC_VISIBILITY aclError aclmdlSetAIPPByInputIndex(uint32_t modelId, aclmdlDataset *dataset, size_t index,
                                                       const aclmdlAIPP *aippParmsSet);
ACL_FUNC_VISIBILITY aclError aclmdlGetAippType(uint32_t modelId, size_t index, aclmdlInputAippType *type,
                                               size_t *dynamicAttachedDataIndex);
ACL_FUNC_VISIBILITY aclError aclmdlGetFirstAippInfo(uint32_t modelId, size_t index, aclAippInfo *aippInfo);

/* Models that there are not here: with queues in place of datasets, .exeom files, and bundles of models. Errors:
 * ACL_ERROR_FEATURE_UNSUPPORTED, also of the description of a failed task's operator, whose message names the node.
 * aclmdlGetOpAttr returns "", or NULL where an argument is NULL: no names of joined operators are kept. */
typedef struct {
  size_t workSize;
  size_t weightSize;
  size_t modelDescSize;
  size_t kernelSize;
  size_t kernelArgsSize;
  size_t staticTaskSize;
  size_t dynamicTaskSize;
  size_t fifoTaskSize;
  size_t reserved[8];
} aclmdlExeOMDesc;
ACL_FUNC_VISIBILITY aclError aclmdlLoadFromFileWithQ(const char *modelPath, uint32_t *modelId, const uint32_t *inputQ,
                                                     size_t inputQNum, const uint32_t *outputQ, size_t outputQNum);
ACL_FUNC_VISIBILITY aclError aclmdlLoadFromMemWithQ(const void *model, size_t modelSize, uint32_t *modelId,
                                                    const uint32_t *inputQ, size_t inputQNum, const uint32_t *outputQ,
                                                    size_t outputQNum);
ACL_FUNC_VISIBILITY aclError aclmdlQueryExeOMDesc(const char *fileName, aclmdlExeOMDesc *mdlPartitionSize);
ACL_FUNC_VISIBILITY aclError aclmdlBundleLoadFromFile(const char *modelPath, uint32_t *bundleId);
ACL_FUNC_VISIBILITY aclError aclmdlBundleLoadFromMem(const void *model, size_t modelSize, uint32_t *bundleId);
ACL_FUNC_VISIBILITY aclError aclmdlBundleGetModelNum(uint32_t bundleId, size_t *modelNum);
ACL_FUNC_VISIBILITY aclError aclmdlBundleGetModelId(uint32_t bundleId, size_t index, uint32_t *modelId);
ACL_FUNC_VISIBILITY aclError aclmdlBundleUnload(uint32_t bundleId);
ACL_FUNC_VISIBILITY aclError aclmdlCreateAndGetOpDesc(uint32_t deviceId, uint32_t streamId, uint32_t taskId,
                                                      char *opName, size_t opNameLen, aclTensorDesc **inputDesc,
                                                      size_t *numInputs, aclTensorDesc **outputDesc,
                                                      size_t *numOutputs);
ACL_FUNC_VISIBILITY const char *aclmdlGetOpAttr(aclmdlDesc *modelDesc, const char *opName, const char *attr);

/* Whom a capture forbids synchronous copies and fills: see above. */
typedef enum {
  ACL_MODEL_RI_CAPTURE_MODE_GLOBAL = 0,
  ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL = 1,
  ACL_MODEL_RI_CAPTURE_MODE_RELAXED = 2,
} aclmdlRICaptureMode;

/* State of the capture of a stream. */
typedef enum {
  ACL_MODEL_RI_CAPTURE_STATUS_NONE = 0,
  ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE = 1,
  ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED = 2,
} aclmdlRICaptureStatus;

/* Begins a capture of a stream, which must not be the default stream. Errors: ACL_ERROR_RT_STREAM_CAPTURED: the
 * stream is being captured already. */
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode);

/* Ends a capture, and returns the instance, which the caller destroys. The stream must be the one that the capture
 * began with, and, unless the mode is RELAXED, the thread too. After an error other than the first three below, the
 * capture is over and there is no instance. Errors: ACL_ERROR_RT_STREAM_NOT_CAPTURED;
 * ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED: the capture began in another stream;
 * ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD; ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED; ACL_ERROR_RT_STREAM_UNJOINED: a
 * stream was not joined; ACL_ERROR_STREAM_TASK_GROUP_STATUS: a task group was not ended. */
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI *modelRI);

/* Returns the state of the stream's capture and its unfinished instance. One of the two pointers may be NULL. */
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus *status,
                                                    aclmdlRI *modelRI);

/* Sets the calling thread's own mode, which is GLOBAL initially, to *mode, and returns the previous one in *mode. */
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode *mode);

/* Operators submitted between the two calls, to a stream that is being captured, form a task group, whose parameters
 * can be updated later. Nothing else may be captured meanwhile. The handle becomes invalid when the instance is
 * destroyed. Errors: ACL_ERROR_RT_STREAM_NOT_CAPTURED; ACL_ERROR_STREAM_TASK_GROUP_STATUS: a group is open already
 * (Begin), or none is (End). Submissions meanwhile return ACL_ERROR_STREAM_TASK_GROUP_INTR (to another stream of the
 * capture) or ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT (not an operator). */
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureTaskGrpBegin(aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream, aclrtTaskGrp *handle);

/* Operators submitted between the two calls, to a stream that is not being captured, do not run. When the stream
 * reaches them, they replace the group's operators one by one, so there must be as many. An execution of the
 * instance uses the parameters that are current when it reaches a task. Errors: ACL_ERROR_STREAM_TASK_GROUP_STATUS:
 * an update is in progress already (Begin), or none is, or the number of tasks differs (End). */
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream stream, aclrtTaskGrp handle);
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream stream);

/* Prints the instance's streams and tasks to the standard output. */
ACL_FUNC_VISIBILITY aclError aclmdlRIDebugPrint(aclmdlRI modelRI);

/* Asynchronous. Executes the instance after the stream's earlier tasks, and after earlier executions of the same
 * instance in any stream. Errors: ACL_ERROR_RT_PARAM_INVALID: memory that it uses was freed;
 * ACL_ERROR_RT_MODEL_CONTEXT: it belongs to another context; ACL_ERROR_RT_MODEL_CAPTURED: it is being captured;
 * ACL_ERROR_RT_STREAM_CAPTURED: the stream is being captured. */
ACL_FUNC_VISIBILITY aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream stream);

/* Destroys the instance after its executions have ended. Errors: ACL_ERROR_RT_MODEL_RUNNING: an execution does not
 * advance; ACL_ERROR_RT_MODEL_CAPTURED: the instance is being captured. */
ACL_FUNC_VISIBILITY aclError aclmdlRIDestroy(aclmdlRI modelRI);

/* Allows dumps until aclmdlFinalizeDump, if the configuration of aclInit requests none. Errors:
 * ACL_ERROR_UNINITIALIZE before aclInit; ACL_ERROR_REPEAT_INITIALIZE on a second call; ACL_ERROR_DUMP_ALREADY_RUN if
 * the configuration of aclInit has a dump section that requests tensors. */
ACL_FUNC_VISIBILITY aclError aclmdlInitDump(void);

/* Sets dumps as the "dump" section of a JSON file describes them, in place of the previous setting:
 *
 *   dump_op_switch  "on": the tensors of each operator whose first phase is called from now on are written to a file
 *                   under
 *                   <dump_path>/<time>/<device>/. "off" (default): tensors of models, which are not implemented yet
 *   dump_path       a folder that exists
 *   dump_mode       "output" (default), "input" or "all"
 *   dump_data       "tensor" (default)
 *   dump_scene      "lite_exception", "aic_err_..._dump": data after errors of AI cores; accepted without effect
 *
 * Errors: ACL_ERROR_DUMP_NOT_RUN without aclmdlInitDump; ACL_ERROR_INVALID_PARAM for NULL; ACL_ERROR_INVALID_FILE
 * for a file that cannot be read; ACL_ERROR_PARSE_FILE for one that is not JSON; ACL_ERROR_INVALID_DUMP_CONFIG for
 * errors in the section; ACL_ERROR_RT_FEATURE_NOT_SUPPORT for statistics, overflow and the scene "watcher". */
ACL_FUNC_VISIBILITY aclError aclmdlSetDump(const char *dumpCfgPath);

/* Stops dumps. Errors: ACL_ERROR_DUMP_NOT_RUN without aclmdlInitDump. */
ACL_FUNC_VISIBILITY aclError aclmdlFinalizeDump(void);

#ifdef __cplusplus
}
#endif

#endif
