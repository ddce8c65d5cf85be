// SPDX-License-Identifier: Apache-2.0
#include "model_file.hpp"

#include "text.hpp"
#include <ostraka/base/error.hpp>

#include <set>
#include <utility>

namespace ostraka::tool {
namespace {

constexpr std::int64_t most_modules = 100'000;
constexpr std::int64_t most_elements = std::int64_t{1} << 56; // so that bytes of all kinds stay below 2^63
constexpr std::size_t most_dims = 32, most_tensors = 10'000;  // of a unit: its layout takes time by their square

layout::Shape read_shape(const JsonPlace& place) {
  place.expect_array();
  if (place.size() > most_dims)
    place.refuse("at most " + std::to_string(most_dims) + " extents");
  layout::Shape shape;
  std::int64_t numel = 1;
  for (std::size_t d = 0; d < place.size(); ++d) {
    const std::int64_t extent = place.element(d).whole(0, INT64_MAX);
    shape.push_back(extent);
    if (__builtin_mul_overflow(numel, extent, &numel) || numel > most_elements)
      place.refuse("at most 2^56 elements", shape_text(shape));
  }
  return shape;
}

fsdp::ParameterSpec read_tensor(const JsonPlace& place) {
  place.expect_array();
  if (place.size() != 2)
    place.refuse("a list [NAME, [EXTENTS ...]]");
  return {place.element(0).text(), read_shape(place.element(1)), DType::f32, true};
}

std::vector<fsdp::ParameterSpec> read_tensors(const JsonPlace& place) {
  place.expect_array();
  if (place.size() > most_tensors)
    place.refuse("at most " + std::to_string(most_tensors));
  std::vector<fsdp::ParameterSpec> tensors;
  for (std::size_t i = 0; i < place.size(); ++i)
    tensors.push_back(read_tensor(place.element(i)));
  return tensors;
}

class Reader {
public:
  Reader(const JsonFile& file, DType storage, const Warn& warn) : root_(file.root()), storage_(storage), warn_(warn) {}

  Model read() {
    root_.expect_object();
    root_.warn_of_unknown({"model", "source", "parameters", "units"}, warn_);
    model_.name = root_.has("model") ? root_.at("model").text() : "";
    const JsonPlace units = root_.at("units");
    units.expect_array();
    if (units.size() == 0)
      units.refuse("at least one unit");
    for (std::size_t i = 0; i < units.size(); ++i)
      read_unit(units.element(i));
    if (model_.parameters == 0)
      units.refuse("tensors with elements", "none");
    check_sum();
    return std::move(model_);
  }

private:
  void read_unit(const JsonPlace& place) {
    place.expect_object();
    place.warn_of_unknown({"unit", "count", "tensors", "forward_s", "backward_s", "dtype", "trainable", "parent"},
                          warn_);
    plan::Unit unit;
    const std::string written = place.at("unit").text();
    unit.count = static_cast<int>(place.has("count") ? place.at("count").whole(1, most_modules) : 1);
    unit.parameters = read_tensors(place.at("tensors"));
    unit.name = name_of(place.at("tensors"), written, unit.parameters);
    unit.forward_s = place.has("forward_s") ? place.at("forward_s").number() : 0;
    unit.backward_s = place.has("backward_s") ? place.at("backward_s").number() : 0;
    read_kind(place, unit);
    read_parent(place, written, unit);
    model_.has_times.push_back(place.has("forward_s") || place.has("backward_s"));
    model_.units.push_back(std::move(unit));
    add_to_sums(place);
  }

  /// Units may have one name if their tensors differ ("model" before and behind the layers); modules may not.
  std::string name_of(const JsonPlace& place, const std::string& written,
                      const std::vector<fsdp::ParameterSpec>& tensors) {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (!tensor_names_.emplace(written, tensors[i].name).second)
        place.element(i).refuse("names that differ",
                                "tensor '" + tensors[i].name + "' of unit '" + written + "' twice");
    std::string name = written;
    for (int i = 2; !unit_names_.insert(name).second; ++i)
      name = written + " (" + std::to_string(i) + ")";
    return name;
  }

  void read_kind(const JsonPlace& place, plan::Unit& unit) {
    DType dtype = storage_;
    if (place.has("dtype")) {
      const JsonPlace at = place.at("dtype");
      dtype = parse_dtype(at.text(), at.where());
    }
    const bool trainable = !place.has("trainable") || place.at("trainable").boolean();
    for (fsdp::ParameterSpec& parameter : unit.parameters) {
      parameter.dtype = dtype;
      parameter.trainable = trainable;
    }
  }

  void read_parent(const JsonPlace& place, const std::string& written, plan::Unit& unit) {
    if (!place.has("parent"))
      return;
    const JsonPlace at = place.at("parent");
    const std::string parent = at.text();
    for (std::size_t i = 0; i < model_.units.size(); ++i)
      if (model_.units[i].name == parent) {
        if (model_.units[i].count != 1)
          at.refuse("a unit of count 1", "'" + parent + "' of count " + std::to_string(model_.units[i].count));
        unit.parent = static_cast<int>(i);
        return;
      }
    at.refuse("the name of an earlier unit", parent == written ? "the unit itself" : "'" + parent + "'");
  }

  void add_to_sums(const JsonPlace& place) {
    const plan::Unit& unit = model_.units.back();
    std::int64_t sum = 0;
    if (__builtin_mul_overflow(elements_of(unit), std::int64_t{unit.count}, &sum) ||
        (model_.parameters += std::min(sum, most_elements + 1)) > most_elements)
      place.refuse("at most 2^56 elements in all", "more");
    if ((model_.modules += unit.count) > most_modules)
      place.refuse("at most " + std::to_string(most_modules) + " modules in all", "more");
  }

  void check_sum() {
    if (!root_.has("parameters"))
      return;
    const JsonPlace at = root_.at("parameters");
    if (const std::int64_t told = at.whole(0, INT64_MAX); told != model_.parameters)
      warn_(at.where() + "expected " + std::to_string(model_.parameters) + ", which the tensors have, found " +
            std::to_string(told));
  }

  JsonPlace root_;
  DType storage_;
  const Warn& warn_;
  Model model_;
  std::set<std::string> unit_names_;
  std::set<std::pair<std::string, std::string>> tensor_names_;
};

} // namespace

DType parse_dtype(const std::string& text, const std::string& what) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16})
    if (text == name(dtype))
      return dtype;
  fail(Status::INVALID_ARGUMENT, what, "expected f64, f32 or bf16, found '", printable(text), "'");
}

std::int64_t elements_of(const plan::Unit& unit, bool matrices) {
  std::int64_t sum = 0;
  for (const fsdp::ParameterSpec& parameter : unit.parameters)
    if (!matrices || parameter.shape.size() >= 2)
      sum = std::min(sum + layout::numel(parameter.shape), most_elements + 1);
  return sum;
}

Model read_model(const std::string& path, DType storage, const Warn& warn) {
  const JsonFile file(path);
  Model model = Reader(file, storage, warn).read();
  model.file = path;
  return model;
}

} // namespace ostraka::tool
