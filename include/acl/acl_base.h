/* SPDX-License-Identifier: Apache-2.0
 *
 * The base of all other headers of CANN's C interface: handles, error codes, data types, formats, logging, and
 * functions that need no device. All functions may be called from any thread; an object must not be used by one
 * thread while another changes it. */
#ifndef ACL_ACL_BASE_H
#define ACL_ACL_BASE_H

#include <stddef.h>
#include <stdint.h>

#include "error_codes/ge_error_codes.h"
#include "error_codes/rt_error_codes.h"

/* Visibility of every public function: the library itself is built with hidden symbols. */
#ifndef ACL_FUNC_VISIBILITY
#  define ACL_FUNC_VISIBILITY __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Handles are opaque, and owned by the caller of the function that created them. */
typedef void *aclrtStream;
typedef void *aclrtEvent;
typedef void *aclrtContext;
typedef void *aclrtNotify;
typedef void *aclrtCntNotify;
typedef void *aclrtLabel;
typedef void *aclrtLabelList;
typedef void *aclrtMbuf;
typedef void *aclrtTaskGrp;
typedef void *aclmdlRITask;
typedef void *aclrtAllocator;
typedef void *aclrtAllocatorDesc;
typedef void *aclrtAllocatorBlock;
typedef void *aclrtAllocatorAddr;

typedef struct aclDataBuffer aclDataBuffer;
typedef struct aclTensorDesc aclTensorDesc;

typedef int aclError;        /* 0, or one of the codes below or in error_codes/ */
typedef uint16_t aclFloat16; /* the bits of an IEEE 754 half-precision number */

/* Error codes of the interface's own layer; those of the runtime below it are in error_codes/rt_error_codes.h. As in
 * CANN, they are constant variables in C++; in C they are enumerators, which can be used in case labels and
 * initialisers. */
#ifdef __cplusplus
#  define ACL_ERROR_CODE(name, value) static const int name = value
#else
#  define ACL_ERROR_CODE(name, value) enum { name = value }
#endif

ACL_ERROR_CODE(ACL_SUCCESS, 0);
ACL_ERROR_CODE(ACL_ERROR_NONE, 0);

/* 1xxxxx: the caller made an error, or its environment is wrong */
ACL_ERROR_CODE(ACL_ERROR_INVALID_PARAM, 100000);
ACL_ERROR_CODE(ACL_ERROR_UNINITIALIZE, 100001);
ACL_ERROR_CODE(ACL_ERROR_REPEAT_INITIALIZE, 100002);
ACL_ERROR_CODE(ACL_ERROR_INVALID_FILE, 100003);
ACL_ERROR_CODE(ACL_ERROR_WRITE_FILE, 100004);
ACL_ERROR_CODE(ACL_ERROR_INVALID_FILE_SIZE, 100005);
ACL_ERROR_CODE(ACL_ERROR_PARSE_FILE, 100006);
ACL_ERROR_CODE(ACL_ERROR_FILE_MISSING_ATTR, 100007);
ACL_ERROR_CODE(ACL_ERROR_FILE_ATTR_INVALID, 100008);
ACL_ERROR_CODE(ACL_ERROR_INVALID_DUMP_CONFIG, 100009);
ACL_ERROR_CODE(ACL_ERROR_INVALID_PROFILING_CONFIG, 100010);
ACL_ERROR_CODE(ACL_ERROR_INVALID_MODEL_ID, 100011);
ACL_ERROR_CODE(ACL_ERROR_DESERIALIZE_MODEL, 100012);
ACL_ERROR_CODE(ACL_ERROR_PARSE_MODEL, 100013);
ACL_ERROR_CODE(ACL_ERROR_READ_MODEL_FAILURE, 100014);
ACL_ERROR_CODE(ACL_ERROR_MODEL_SIZE_INVALID, 100015);
ACL_ERROR_CODE(ACL_ERROR_MODEL_MISSING_ATTR, 100016);
ACL_ERROR_CODE(ACL_ERROR_MODEL_INPUT_NOT_MATCH, 100017);
ACL_ERROR_CODE(ACL_ERROR_MODEL_OUTPUT_NOT_MATCH, 100018);
ACL_ERROR_CODE(ACL_ERROR_MODEL_NOT_DYNAMIC, 100019);
ACL_ERROR_CODE(ACL_ERROR_OP_TYPE_NOT_MATCH, 100020);
ACL_ERROR_CODE(ACL_ERROR_OP_INPUT_NOT_MATCH, 100021);
ACL_ERROR_CODE(ACL_ERROR_OP_OUTPUT_NOT_MATCH, 100022);
ACL_ERROR_CODE(ACL_ERROR_OP_ATTR_NOT_MATCH, 100023);
ACL_ERROR_CODE(ACL_ERROR_OP_NOT_FOUND, 100024);
ACL_ERROR_CODE(ACL_ERROR_OP_LOAD_FAILED, 100025);
ACL_ERROR_CODE(ACL_ERROR_UNSUPPORTED_DATA_TYPE, 100026);
ACL_ERROR_CODE(ACL_ERROR_FORMAT_NOT_MATCH, 100027);
ACL_ERROR_CODE(ACL_ERROR_BIN_SELECTOR_NOT_REGISTERED, 100028);
ACL_ERROR_CODE(ACL_ERROR_KERNEL_NOT_FOUND, 100029);
ACL_ERROR_CODE(ACL_ERROR_BIN_SELECTOR_ALREADY_REGISTERED, 100030);
ACL_ERROR_CODE(ACL_ERROR_KERNEL_ALREADY_REGISTERED, 100031);
ACL_ERROR_CODE(ACL_ERROR_INVALID_QUEUE_ID, 100032);
ACL_ERROR_CODE(ACL_ERROR_REPEAT_SUBSCRIBE, 100033);
ACL_ERROR_CODE(ACL_ERROR_STREAM_NOT_SUBSCRIBE, 100034);
ACL_ERROR_CODE(ACL_ERROR_THREAD_NOT_SUBSCRIBE, 100035);
ACL_ERROR_CODE(ACL_ERROR_WAIT_CALLBACK_TIMEOUT, 100036);
ACL_ERROR_CODE(ACL_ERROR_REPEAT_FINALIZE, 100037);
ACL_ERROR_CODE(ACL_ERROR_NOT_STATIC_AIPP, 100038);
ACL_ERROR_CODE(ACL_ERROR_COMPILING_STUB_MODE, 100039);
ACL_ERROR_CODE(ACL_ERROR_GROUP_NOT_SET, 100040);
ACL_ERROR_CODE(ACL_ERROR_GROUP_NOT_CREATE, 100041);
ACL_ERROR_CODE(ACL_ERROR_PROF_ALREADY_RUN, 100042);
ACL_ERROR_CODE(ACL_ERROR_PROF_NOT_RUN, 100043);
ACL_ERROR_CODE(ACL_ERROR_DUMP_ALREADY_RUN, 100044);
ACL_ERROR_CODE(ACL_ERROR_DUMP_NOT_RUN, 100045);
ACL_ERROR_CODE(ACL_ERROR_PROF_REPEAT_SUBSCRIBE, 148046);
ACL_ERROR_CODE(ACL_ERROR_PROF_API_CONFLICT, 148047);
ACL_ERROR_CODE(ACL_ERROR_INVALID_MAX_OPQUEUE_NUM_CONFIG, 148048);
ACL_ERROR_CODE(ACL_ERROR_INVALID_OPP_PATH, 148049);
ACL_ERROR_CODE(ACL_ERROR_OP_UNSUPPORTED_DYNAMIC, 148050);
ACL_ERROR_CODE(ACL_ERROR_RELATIVE_RESOURCE_NOT_CLEARED, 148051);
ACL_ERROR_CODE(ACL_ERROR_UNSUPPORTED_JPEG, 148052);
ACL_ERROR_CODE(ACL_ERROR_INVALID_BUNDLE_MODEL_ID, 148053);

/* 2xxxxx: a resource is exhausted, or this device or version lacks a feature */
ACL_ERROR_CODE(ACL_ERROR_BAD_ALLOC, 200000);
ACL_ERROR_CODE(ACL_ERROR_API_NOT_SUPPORT, 200001);
ACL_ERROR_CODE(ACL_ERROR_INVALID_DEVICE, 200002);
ACL_ERROR_CODE(ACL_ERROR_MEMORY_ADDRESS_UNALIGNED, 200003);
ACL_ERROR_CODE(ACL_ERROR_RESOURCE_NOT_MATCH, 200004);
ACL_ERROR_CODE(ACL_ERROR_INVALID_RESOURCE_HANDLE, 200005);
ACL_ERROR_CODE(ACL_ERROR_FEATURE_UNSUPPORTED, 200006);
ACL_ERROR_CODE(ACL_ERROR_PROF_MODULES_UNSUPPORTED, 200007);

/* 3xxxxx: state of a service */
ACL_ERROR_CODE(ACL_ERROR_STORAGE_OVER_LIMIT, 300000);

/* 5xxxxx: internal errors */
ACL_ERROR_CODE(ACL_ERROR_INTERNAL_ERROR, 500000);
ACL_ERROR_CODE(ACL_ERROR_FAILURE, 500001);
ACL_ERROR_CODE(ACL_ERROR_GE_FAILURE, 500002);
ACL_ERROR_CODE(ACL_ERROR_RT_FAILURE, 500003);
ACL_ERROR_CODE(ACL_ERROR_DRV_FAILURE, 500004);
ACL_ERROR_CODE(ACL_ERROR_PROFILING_FAILURE, 500005);

#undef ACL_ERROR_CODE

#define ACL_TENSOR_SHAPE_RANGE_NUM 2
#define ACL_TENSOR_VALUE_RANGE_NUM 2
#define ACL_UNKNOWN_RANK           0xFFFFFFFFFFFFFFFEULL

/* Types of elements. Types of less than a byte are packed: two INT4 or eight UINT1 to a byte. */
typedef enum aclDataType {
  ACL_DT_UNDEFINED = -1,
  ACL_FLOAT = 0,
  ACL_FLOAT16 = 1,
  ACL_INT8 = 2,
  ACL_INT32 = 3,
  ACL_UINT8 = 4,
  ACL_INT16 = 6,
  ACL_UINT16 = 7,
  ACL_UINT32 = 8,
  ACL_INT64 = 9,
  ACL_UINT64 = 10,
  ACL_DOUBLE = 11,
  ACL_BOOL = 12,
  ACL_STRING = 13,
  ACL_COMPLEX64 = 16,
  ACL_COMPLEX128 = 17,
  ACL_BF16 = 27,
  ACL_INT4 = 29,
  ACL_UINT1 = 30,
  ACL_COMPLEX32 = 33,
  ACL_HIFLOAT8 = 34,
  ACL_FLOAT8_E5M2 = 35,
  ACL_FLOAT8_E4M3FN = 36,
  ACL_FLOAT8_E8M0 = 37,
  ACL_FLOAT6_E3M2 = 38,
  ACL_FLOAT6_E2M3 = 39,
  ACL_FLOAT4_E2M1 = 40,
  ACL_FLOAT4_E1M2 = 41,
} aclDataType;

/* Meaning of a tensor's dimensions, and layout of its elements in memory. */
typedef enum aclFormat {
  ACL_FORMAT_UNDEFINED = -1,
  ACL_FORMAT_NCHW = 0,
  ACL_FORMAT_NHWC = 1,
  ACL_FORMAT_ND = 2,
  ACL_FORMAT_NC1HWC0 = 3,
  ACL_FORMAT_FRACTAL_Z = 4,
  ACL_FORMAT_NC1HWC0_C04 = 12,
  ACL_FORMAT_HWCN = 16,
  ACL_FORMAT_NDHWC = 27,
  ACL_FORMAT_FRACTAL_NZ = 29,
  ACL_FORMAT_NCDHW = 30,
  ACL_FORMAT_NDC1HWC0 = 32,
  ACL_FRACTAL_Z_3D = 33,
  ACL_FORMAT_NC = 35,
  ACL_FORMAT_NCL = 47,
  ACL_FORMAT_FRACTAL_NZ_C0_16 = 50,
  ACL_FORMAT_FRACTAL_NZ_C0_32 = 51,
  ACL_FORMAT_FRACTAL_NZ_C0_2 = 52,
  ACL_FORMAT_FRACTAL_NZ_C0_4 = 53,
  ACL_FORMAT_FRACTAL_NZ_C0_8 = 54,
} aclFormat;

/* Location of an operand's data, for aclTensorDesc. */
typedef enum aclMemType {
  ACL_MEMTYPE_DEVICE = 0,
  ACL_MEMTYPE_HOST = 1,
  ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT = 2,
} aclMemType;

/* Levels of aclAppLog. The environment variable ASCEND_GLOBAL_LOG_LEVEL names the lowest level that is written. */
typedef enum aclLogLevel {
  ACL_DEBUG = 0,
  ACL_INFO = 1,
  ACL_WARNING = 2,
  ACL_ERROR = 3,
} aclLogLevel;

/* Properties of the software and of the SoC; each is 0 (no) or 1 (yes). */
typedef enum aclCannAttr {
  ACL_CANN_ATTR_UNDEFINED = -1,
  ACL_CANN_ATTR_INF_NAN = 0,
  ACL_CANN_ATTR_BF16 = 1,
  ACL_CANN_ATTR_JIT_COMPILE = 2,
} aclCannAttr;

/* Properties of a device: numbers of cores, and the size of the L2 cache in bytes. */
typedef enum aclDeviceInfo {
  ACL_DEVICE_INFO_UNDEFINED = -1,
  ACL_DEVICE_INFO_AI_CORE_NUM = 0,
  ACL_DEVICE_INFO_VECTOR_CORE_NUM = 1,
  ACL_DEVICE_INFO_L2_SIZE = 2,
} aclDeviceInfo;

/* Options of aclrtSetSysParamOpt (process) and aclrtCtxSetSysParamOpt (context). */
typedef enum aclSysParamOpt {
  ACL_OPT_DETERMINISTIC = 0,
  ACL_OPT_ENABLE_DEBUG_KERNEL = 1,
  ACL_OPT_STRONG_CONSISTENCY = 2,
  ACL_OPT_ENABLE_KERNEL_EARLY_START = 3,
} aclSysParamOpt;

/* Returns the name of the SoC that is simulated, such as "Ascend910B3": a static string. Works before aclInit. */
ACL_FUNC_VISIBILITY const char *aclrtGetSocName(void);

/* Returns the size of an element in bytes; 0 for a type that is not in aclDataType. */
ACL_FUNC_VISIBILITY size_t aclDataTypeSize(aclDataType dataType);

/* A data buffer describes a piece of memory by address and size; the memory stays the caller's. Create returns a new
 * object, which the caller destroys, or NULL if there is no memory; data may be NULL and size 0. Update replaces
 * both. The getters return NULL and 0 for a NULL object; aclGetDataBufferSize returns the lower 32 bits of the size.
 * Errors: ACL_ERROR_INVALID_PARAM for a NULL object. */
ACL_FUNC_VISIBILITY aclDataBuffer *aclCreateDataBuffer(void *data, size_t size);
ACL_FUNC_VISIBILITY aclError aclDestroyDataBuffer(const aclDataBuffer *dataBuffer);
ACL_FUNC_VISIBILITY aclError aclUpdateDataBuffer(aclDataBuffer *dataBuffer, void *data, size_t size);
ACL_FUNC_VISIBILITY void *aclGetDataBufferAddr(const aclDataBuffer *dataBuffer);
ACL_FUNC_VISIBILITY uint32_t aclGetDataBufferSize(const aclDataBuffer *dataBuffer);
ACL_FUNC_VISIBILITY size_t aclGetDataBufferSizeV2(const aclDataBuffer *dataBuffer);

/* A tensor description describes an operand for the functions that call operators by name (acl_op.h,
 * acl_op_compiler.h). Its data type, dimensions and format are those of the tensor as the program sees it, its
 * origin. A dimension of -1 is unknown; a single dimension of -2 says that the rank is unknown, too; numDims 0 is a
 * scalar. Create returns a new object, or NULL if there is no memory or the dimensions are invalid. The caller
 * destroys it; destroying NULL has no effect. */
ACL_FUNC_VISIBILITY aclTensorDesc *aclCreateTensorDesc(aclDataType dataType, int numDims, const int64_t *dims,
                                                       aclFormat format);
ACL_FUNC_VISIBILITY void aclDestroyTensorDesc(const aclTensorDesc *desc);

/* Getters of the values given at creation. A NULL desc has no type, format, dimensions or elements, and the name "".
 * NumDims returns ACL_UNKNOWN_RANK for an unknown rank. ElementCount, and Size in bytes, are 0 if a dimension is
 * unknown. For an index out of range, Dim returns -1 and DimV2 ACL_ERROR_INVALID_PARAM. DimRange copies the pair of
 * aclSetTensorShapeRange for one dimension into dimRange, which has dimRangeNum elements, at least 2. A name is
 * valid until it is replaced. */
ACL_FUNC_VISIBILITY aclDataType aclGetTensorDescType(const aclTensorDesc *desc);
ACL_FUNC_VISIBILITY aclFormat aclGetTensorDescFormat(const aclTensorDesc *desc);
ACL_FUNC_VISIBILITY size_t aclGetTensorDescSize(const aclTensorDesc *desc);
ACL_FUNC_VISIBILITY size_t aclGetTensorDescElementCount(const aclTensorDesc *desc);
ACL_FUNC_VISIBILITY size_t aclGetTensorDescNumDims(const aclTensorDesc *desc);
ACL_FUNC_VISIBILITY int64_t aclGetTensorDescDim(const aclTensorDesc *desc, size_t index);
ACL_FUNC_VISIBILITY aclError aclGetTensorDescDimV2(const aclTensorDesc *desc, size_t index, int64_t *dimSize);
ACL_FUNC_VISIBILITY aclError aclGetTensorDescDimRange(const aclTensorDesc *desc, size_t index, size_t dimRangeNum,
                                                      int64_t *dimRange);
ACL_FUNC_VISIBILITY const char *aclGetTensorDescName(aclTensorDesc *desc);
ACL_FUNC_VISIBILITY void aclSetTensorDescName(aclTensorDesc *desc, const char *name);

/* Set how the tensor is stored in memory, if that differs from its origin: the format, and the dimensions, which
 * count all stored elements including padding. aclSetTensorFormat is the same as aclSetTensorStorageFormat, and
 * aclSetTensorShape the same as aclSetTensorStorageShape. Errors: ACL_ERROR_INVALID_PARAM. */
ACL_FUNC_VISIBILITY aclError aclSetTensorFormat(aclTensorDesc *desc, aclFormat format);
ACL_FUNC_VISIBILITY aclError aclSetTensorShape(aclTensorDesc *desc, int numDims, const int64_t *dims);
ACL_FUNC_VISIBILITY aclError aclSetTensorStorageFormat(aclTensorDesc *desc, aclFormat format);
ACL_FUNC_VISIBILITY aclError aclSetTensorStorageShape(aclTensorDesc *desc, int numDims, const int64_t *dims);

/* Replace the format and the dimensions given at creation. Errors: ACL_ERROR_INVALID_PARAM. */
ACL_FUNC_VISIBILITY aclError aclSetTensorOriginFormat(aclTensorDesc *desc, aclFormat format);
ACL_FUNC_VISIBILITY aclError aclSetTensorOriginShape(aclTensorDesc *desc, int numDims, const int64_t *dims);

/* Further properties; the arguments are copied. ShapeRange: bounds of unknown dimensions, a pair for each dimension.
 * ValueRange: bounds of values. Const: the operand's bytes, if they are known in advance. PlaceMent: where the
 * operand's data buffer is; an operand in host memory is read when the operator is called. DynamicInput: the operand
 * belongs to the operator's input of that name, which takes any number of tensors. Errors: ACL_ERROR_INVALID_PARAM. */
ACL_FUNC_VISIBILITY aclError aclSetTensorShapeRange(aclTensorDesc *desc, size_t dimsCount,
                                                    int64_t dimsRange[][ACL_TENSOR_SHAPE_RANGE_NUM]);
ACL_FUNC_VISIBILITY aclError aclSetTensorValueRange(aclTensorDesc *desc, size_t valueCount,
                                                    int64_t valueRange[][ACL_TENSOR_VALUE_RANGE_NUM]);
ACL_FUNC_VISIBILITY aclError aclSetTensorConst(aclTensorDesc *desc, void *dataBuffer, size_t length);
ACL_FUNC_VISIBILITY aclError aclSetTensorPlaceMent(aclTensorDesc *desc, aclMemType memType);
ACL_FUNC_VISIBILITY aclError aclSetTensorDynamicInput(aclTensorDesc *desc, const char *dynamicInputName);

/* Conversions as the NPU does them, which differ from IEEE 754 at the limits: infinity and NaN become the largest
 * finite half-precision number (65504, negative for -infinity), and a half-precision number whose exponent bits are
 * all ones is an ordinary number of 65536 or more. */
ACL_FUNC_VISIBILITY float aclFloat16ToFloat(aclFloat16 value);
ACL_FUNC_VISIBILITY aclFloat16 aclFloatToFloat16(float value);

/* Returns the attributes that aclGetCannAttribute can answer. The array is static. */
ACL_FUNC_VISIBILITY aclError aclGetCannAttributeList(const aclCannAttr **cannAttrList, size_t *num);

/* Returns 1 if the simulated SoC has the attribute, else 0. Errors: ACL_ERROR_INVALID_PARAM for an unknown
 * attribute. */
ACL_FUNC_VISIBILITY aclError aclGetCannAttribute(aclCannAttr cannAttr, int32_t *value);

/* Returns a property of a device. Errors: ACL_ERROR_INVALID_PARAM for an unknown property,
 * ACL_ERROR_RT_INVALID_DEVICEID. */
ACL_FUNC_VISIBILITY aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t *value);

/* Writes a line to the log if logLevel is enabled. func, file and line say where it comes from; fmt and the
 * arguments after it are those of printf. The line is cut after 1024 bytes. */
ACL_FUNC_VISIBILITY void aclAppLog(aclLogLevel logLevel, const char *func, const char *file, uint32_t line,
                                   const char *fmt, ...);

/* Calls aclAppLog with the current function, file and line: ACL_APP_LOG(level, fmt, ...). */
#define ACL_APP_LOG(level, ...) aclAppLog(level, __func__, __FILE__, __LINE__, __VA_ARGS__)

#ifdef __cplusplus
}
#endif

#endif
