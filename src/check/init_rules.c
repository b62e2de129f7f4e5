/* SPDX-License-Identifier: Apache-2.0 */
#include "check/init_rules.h"

#include <stddef.h>
#include <string.h>

/* Names that end in '*' stand for all that begin so. The first line that fits an operator and its argument counts; an
 * argument NULL fits all. What is not here reads all of its operands. */
static const struct {
  const char *op, *argument;
  read_rule rule;
} rules[] = {
    /* Sources of which indices choose, and what is left of a tensor that is updated in some places. */
    {"IndexSelect", "self", READ_SOME},
    {"Gather*", "self", READ_SOME},
    {"Take", "self", READ_SOME},
    {"Index", "self", READ_SOME},
    {"Embedding*", "weight", READ_SOME},
    {"EmbeddingRenorm", "selfRef", READ_SOME},
    {"RopeWithSinCosCache", "cosSinCache", READ_SOME},
    {"InplaceScatter*", "selfRef", READ_NONE},
    {"InplaceScatterUpdate", "data", READ_NONE},
    {"Scatter*", "self", READ_NONE},
    {"ScatterNd", "data", READ_NONE},
    {"ScatterNdUpdate", "varRef", READ_NONE},
    {"ScatterPaKvCache*", "keyCacheRef", READ_NONE},
    {"ScatterPaKvCache*", "valueCacheRef", READ_NONE},
    {"ScatterPaKvCache*", NULL, READ_SOME},
    {"IndexPutImpl", "selfRef", READ_NONE},
    {"IndexCopy", "selfRef", READ_NONE},
    {"IndexFill*", "self", READ_NONE},
    {"InplaceIndex*", "selfRef", READ_NONE},
    {"InplacePut", "selfRef", READ_NONE},
    {"InplaceMaskedScatter", "selfRef", READ_NONE},
    {"InplaceMaskedScatter", "source", READ_SOME},
    {"InplaceMaskedFill*", "selfRef", READ_NONE},
    {"InplaceFillDiagonal", "selfRef", READ_NONE},
    {"StridedSliceAssignV2", "varRef", READ_NONE},
    {"ViewCopy", "dst", READ_NONE},
    /* What a condition or a mask does not choose. */
    {"SWhere", "self", READ_NONE},
    {"SWhere", "other", READ_NONE},
    {"Where", NULL, READ_NONE},
    {"MaskedSelect", "self", READ_SOME},
    {"MaskedScale", "self", READ_SOME},
    {"BackgroundReplace", NULL, READ_SOME},
    {"Tril", "self", READ_SOME},
    {"Triu", "self", READ_SOME},
    {"InplaceTri*", "selfRef", READ_SOME},
    {"Diag", "self", READ_SOME},
    /* Factors that may be 0, of which BLAS says that the operand is not read. */
    {"Addmm*", "self", READ_NONE},
    {"InplaceAddmm", "selfRef", READ_NONE},
    {"Addbmm", "self", READ_NONE},
    {"InplaceAddbmm", "selfRef", READ_NONE},
    {"Baddbmm", "self", READ_NONE},
    {"InplaceBaddbmm", "selfRef", READ_NONE},
    {"Addmv", "self", READ_NONE},
    {"Addr", "self", READ_NONE},
    {"InplaceAddr", "selfRef", READ_NONE},
    /* Only the shape, or only in one of the modes. */
    {"Bernoulli*", "self", READ_NONE},
    {"BatchNorm*", "runningMean", READ_NONE},
    {"BatchNorm*", "runningVar", READ_NONE},
    {"BatchNormBackward", "saveMean", READ_NONE},
    {"BatchNormBackward", "saveInvstd", READ_NONE},
    {"LogSigmoidBackward", "buffer", READ_NONE},
    {"DropoutDoMask", "mask", READ_SOME}, /* masks are rounded up to 16 bytes */
    {"Dropout*", "mask", READ_SOME},
    {"ConvolutionBackward", "input", READ_SOME},
    {"GridSampler*", "input", READ_SOME},
    {"RoiAlign*", "self", READ_SOME},
    /* Sequences and experts with lengths of their own, caches in pages, masks. */
    {"FlashAttention*", NULL, READ_SOME},
    {"FusedInferAttention*", NULL, READ_SOME},
    {"PromptFlashAttention*", NULL, READ_SOME},
    {"IncreFlashAttention*", NULL, READ_SOME},
    {"RingAttentionUpdate", NULL, READ_SOME},
    {"Moe*", NULL, READ_SOME},
    {"Grouped*", NULL, READ_SOME},
    {"QuantGrouped*", NULL, READ_SOME},
    {"FFN*", NULL, READ_SOME},
    {"AlltoAll*", NULL, READ_SOME},
    {"BatchMatMulReduceScatterAlltoAll", NULL, READ_SOME},
    /* Moves. */
    {"InplaceCopy", "src", READ_MOVED},
    {"ForeachCopy", "x", READ_MOVED},
    {"Expand", "self", READ_MOVED},
    {"Permute", "self", READ_MOVED},
    {"Flatten", "self", READ_MOVED},
    {"Flip", "self", READ_MOVED},
    {"Roll", "x", READ_MOVED},
    {"ChannelShuffle", "self", READ_MOVED},
    {"ConfusionTranspose", "x", READ_MOVED},
    {"Cat", "tensors", READ_MOVED},
    {"Stack", "tensors", READ_MOVED},
    {"ChunkCat", "tensors", READ_MOVED},
    {"Split*", "self", READ_MOVED},
    {"Slice*", "self", READ_MOVED},
    {"StridedSlice", "self", READ_MOVED},
    {"Repeat", "self", READ_MOVED},
    {"RepeatInterleaveInt*", "self", READ_MOVED},
    {"ConstantPadNd", "self", READ_MOVED},
    {"TransData*", NULL, READ_MOVED},
    {"Cast", "self", READ_MOVED},
    {"Im2col", "self", READ_MOVED},
    {"prefetch", NULL, READ_NONE},
};

static bool fits(const char *pattern, const char *name) {
  const size_t n = strlen(pattern);
  return n && pattern[n - 1] == '*' ? strncmp(pattern, name, n - 1) == 0 : strcmp(pattern, name) == 0;
}

read_rule init_read_rule(const char *op, const char *argument) {
  for (size_t i = 0; i < sizeof rules / sizeof *rules; ++i)
    if (fits(rules[i].op, op) && (!rules[i].argument || (argument && strcmp(rules[i].argument, argument) == 0)))
      return rules[i].rule;
  return READ_ALL;
}

bool init_keeps_order(const char *op) {
  return strcmp(op, "InplaceCopy") == 0 || strcmp(op, "Expand") == 0 || strcmp(op, "Flatten") == 0;
}
