// SPDX-License-Identifier: Apache-2.0
// The functions of CANN's graph engine that make an .om file of an ONNX model in memory, for onnxruntime's provider.
// libcannon.so does the work (cannon/model.h). The layouts of AscendString, Graph and ModelBufferData are compiled into
// clients, which copy and destroy such objects without us: each is a shared pointer, whose deleter is ours.
//
// A Graph keeps the model's bytes. Building one makes a file's contents of them; nothing is kept between calls.
// Thread-safe for different objects.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "cannon/model.h"
#include "ge/ascend_string.h"
#include "graph/file/option_texts.h"

#define GE_EXPORTED __attribute__((visibility("default")))

namespace ge {

class GraphImpl;

class GE_EXPORTED Graph {
public:
  explicit Graph(const char *name);
  GraphImpl *impl() const { return impl_.get(); }

private:
  std::shared_ptr<GraphImpl> impl_;
};

class GraphImpl {
public:
  std::string name, onnx;
};

struct ModelBufferData {
  std::shared_ptr<uint8_t> data;
  uint64_t length;
};

using graphStatus = uint32_t;
using options = std::map<AscendString, AscendString>;
static_assert(sizeof(Graph) == 16 && sizeof(ModelBufferData) == 24, "these layouts are compiled into clients");

namespace {

enum : graphStatus { GRAPH_SUCCESS = 0, GRAPH_FAILED = 0xffffffff };

template <typename... T> graphStatus refuse(const char *format, T... values) {
  aclAppLog(ACL_ERROR, __func__, __FILE__, __LINE__, format, values...);
  return GRAPH_FAILED;
}

// One input of the option input_shape.
struct shape {
  std::string name;
  cannon_model_shape dims;
};

// Reads "name:1,3,224,224". onnxruntime's provider writes only the name of a scalar; names may contain colons.
shape read_shape(const std::string &text) {
  const size_t colon = text.rfind(':');
  shape s = {text.substr(0, colon), {}};
  char error[OPTION_ERROR];
  if (colon != std::string::npos && !option_dims(text.c_str() + colon + 1, &s.dims, error)) s = {text, {}};
  return s;
}

// Reads "name:dims;name:dims". Names that the model does not have are refused when it is built.
std::vector<shape> read_shapes(const std::string &text) {
  std::vector<shape> shapes;
  for (size_t at = 0, end; at < text.size(); at = end + 1) {
    end = std::min(text.find(';', at), text.size());
    if (end > at) shapes.push_back(read_shape(text.substr(at, end - at)));
  }
  return shapes;
}

const char *option(const options &all, const char *name) {
  const auto found = all.find(AscendString(name));
  return found == all.end() ? "" : found->second.GetString();
}

// What the options say of a model, and the texts that `chosen` points into.
struct request {
  cannon_model_options chosen = {};
  std::vector<shape> shapes;
  std::vector<cannon_model_shape> dims;
  std::vector<int64_t> numbers;
  std::vector<const char *> outputs;
  std::vector<cannon_model_type> types;
  std::vector<std::string> half_names;
  std::vector<cannon_model_input> inputs;
  std::string output_text, type_text, aipp;
};

// input_shape_range is the older name of what input_shape can say, too.
void take_shapes(const options &all, request *r) {
  const char *text = option(all, "input_shape");
  r->shapes = read_shapes(*text ? text : option(all, "input_shape_range"));
  for (shape &s : r->shapes) {
    s.dims.name = s.name.c_str();
    r->dims.push_back(s.dims);
  }
  r->chosen.shapes = r->dims.data();
  r->chosen.n_shapes = r->dims.size();
}

// "name;name": inputs that callers give as float16.
void take_inputs(const options &all, request *r) {
  const std::string text = option(all, "input_fp16_nodes");
  for (size_t at = 0, end; at < text.size(); at = end + 1) {
    end = std::min(text.find(';', at), text.size());
    if (end > at) r->half_names.push_back(text.substr(at, end - at));
  }
  for (const std::string &name : r->half_names) r->inputs.push_back({name.c_str(), 1, 0});
  r->chosen.inputs = r->inputs.data();
  r->chosen.n_inputs = r->inputs.size();
}

graphStatus take_gears(const options &all, request *r) {
  static const struct {
    const char *name;
    cannon_model_gears kind;
  } known[] = {{"ge.dynamicBatchSize", CANNON_MODEL_BATCH},
               {"ge.dynamicImageSize", CANNON_MODEL_IMAGE},
               {"ge.dynamicDims", CANNON_MODEL_DIMS}};
  char error[OPTION_ERROR];
  for (const auto &k : known) {
    const char *text = option(all, k.name);
    if (!*text) continue;
    if (r->chosen.gears)
      return refuse("option %s is given beside other gears, expected one of ge.dynamicBatchSize, ge.dynamicImageSize "
                    "and ge.dynamicDims",
                    k.name);
    r->numbers.resize(OPTION_MOST_NUMBERS);
    if (!option_gears(text, k.kind, r->numbers.data(), &r->chosen, error))
      return refuse("option %s has %s", k.name, error);
  }
  return GRAPH_SUCCESS;
}

graphStatus take_outputs(const options &all, request *r) {
  char error[OPTION_ERROR];
  r->output_text = option(all, "out_nodes");
  r->type_text = option(all, "output_type");
  r->outputs.resize(OPTION_MOST_OUTPUTS);
  r->types.resize(OPTION_MOST_OUTPUTS);
  r->chosen.outputs = r->outputs.data();
  r->chosen.types = r->types.data();
  if (!option_outputs(&r->output_text[0], r->outputs.data(), &r->chosen.n_outputs, error))
    return refuse("option out_nodes has %s", error);
  if (!option_types(&r->type_text[0], r->types.data(), &r->chosen.n_types, error))
    return refuse("option output_type has %s", error);
  return GRAPH_SUCCESS;
}

// The option is the name of a file, as atc's --insert_op_conf is.
graphStatus take_aipp(const options &all, request *r) {
  const char *path = option(all, "ge.insertOpFile");
  if (!*path) return GRAPH_SUCCESS;
  std::ifstream file(path);
  r->aipp.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  if (r->aipp.empty()) return refuse("option ge.insertOpFile is %s, which cannot be read, or is empty", path);
  r->chosen.aipp = r->aipp.c_str();
  return GRAPH_SUCCESS;
}

graphStatus build(const GraphImpl &graph, const options &all, ModelBufferData *model) {
  request r;
  take_shapes(all, &r);
  take_inputs(all, &r);
  if (take_gears(all, &r) || take_outputs(all, &r) || take_aipp(all, &r)) return GRAPH_FAILED;
  r.chosen.name = graph.name.c_str();
  void *om;
  size_t bytes;
  if (cannon_model_build_from_memory(graph.onnx.data(), graph.onnx.size(), &r.chosen, &om, &bytes, nullptr) !=
      ACL_SUCCESS)
    return GRAPH_FAILED; // with a message for aclGetRecentErrMsg
  model->data = std::shared_ptr<uint8_t>(static_cast<uint8_t *>(om), free);
  model->length = bytes;
  return GRAPH_SUCCESS;
}

} // namespace

Graph::Graph(const char *name) : impl_(std::make_shared<GraphImpl>()) { impl_->name = name ? name : ""; }

GE_EXPORTED graphStatus aclgrphBuildInitialize(options &) { return GRAPH_SUCCESS; }

GE_EXPORTED void aclgrphBuildFinalize() {}

GE_EXPORTED graphStatus aclgrphParseONNXFromMem(const char *bytes, size_t n, const options &, Graph &graph) try {
  if (!bytes || !n || !graph.impl()) return refuse("the model is empty, expected the bytes of an ONNX model");
  graph.impl()->onnx.assign(bytes, n);
  return GRAPH_SUCCESS;
} catch (const std::bad_alloc &) {
  return refuse("no host memory for the %zu bytes of a model", n);
}

GE_EXPORTED graphStatus aclgrphBuildModel(const Graph &graph, const options &all, ModelBufferData &model) try {
  if (!graph.impl()) return refuse("the graph is empty, expected one with a model");
  return build(*graph.impl(), all, &model);
} catch (const std::bad_alloc &) {
  return refuse("no host memory for a model of %zu bytes", graph.impl()->onnx.size());
}

GE_EXPORTED graphStatus aclgrphSaveModel(const char *name, const ModelBufferData &model) try {
  if (!name || !model.data) return refuse("the name or the model is missing");
  std::string path(name);
  if (path.size() < 3 || path.compare(path.size() - 3, 3, ".om")) path += ".om";
  return cannon_model_save(path.c_str(), model.data.get(), model.length) == ACL_SUCCESS ? GRAPH_SUCCESS : GRAPH_FAILED;
} catch (const std::bad_alloc &) {
  return refuse("no host memory for the name of a file");
}

} // namespace ge
