/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/nodes.h"
#include "graph/onnx/convert.h"

const onnx_operator onnx_spectra[] = {{0}};
