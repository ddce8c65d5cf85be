// SPDX-License-Identifier: Apache-2.0
#include "objects.hpp"
#include <ostraka/extras.h>

using namespace ostraka;
using namespace ostraka::capi;

extern "C" {

ostraka_status_t ostraka_extras_create(ostraka_extras_t* extras) {
  return wall(__func__, [&] {
    ostraka_extras_t& result = output(extras, "extras");
    result = make_handle<ostraka_extras_t>(std::make_shared<ExtrasObject>());
  });
}

ostraka_status_t ostraka_extras_destroy(ostraka_extras_t* extras) {
  return wall(__func__, [&] { remove(extras); });
}

ostraka_status_t ostraka_extras_set_f64(ostraka_extras_t extras, const char* name, double value) {
  return wall(__func__, [&] { get(extras)->values.set_f64(text(name, "name"), value); });
}

ostraka_status_t ostraka_extras_set_i64(ostraka_extras_t extras, const char* name, int64_t value) {
  return wall(__func__, [&] { get(extras)->values.set_i64(text(name, "name"), value); });
}

ostraka_status_t ostraka_extras_set_text(ostraka_extras_t extras, const char* name, const char* characters) {
  return wall(__func__, [&] { get(extras)->values.set_text(text(name, "name"), text(characters, "text")); });
}

ostraka_status_t ostraka_extras_set_array(ostraka_extras_t extras, const char* name, int32_t dtype,
                                          ostraka_shape_t shape, const void* data) {
  return wall(__func__, [&] {
    const layout::Shape extents = to_shape(shape);
    expect(layout::numel(extents) == 0 || data != nullptr, Status::INVALID_ARGUMENT, "'data' is null");
    get(extras)->values.set_array(text(name, "name"), to_dtype(dtype), extents, data);
  });
}

ostraka_status_t ostraka_extras_f64(ostraka_extras_t extras, const char* name, double* value) {
  return wall(__func__, [&] { output(value, "value") = get(extras)->values.f64(text(name, "name")); });
}

ostraka_status_t ostraka_extras_i64(ostraka_extras_t extras, const char* name, int64_t* value) {
  return wall(__func__, [&] { output(value, "value") = get(extras)->values.i64(text(name, "name")); });
}

ostraka_status_t ostraka_extras_text(ostraka_extras_t extras, const char* name, const char** characters) {
  return wall(__func__, [&] {
    const auto object = get(extras);
    std::string found = object->values.text(text(name, "name"));
    std::string& kept = object->texts[name];
    if (kept != found) // a pointer handed out earlier stays valid
      kept = std::move(found);
    output(characters, "text") = kept.c_str();
  });
}

ostraka_status_t ostraka_extras_array(ostraka_extras_t extras, const char* name, int32_t dtype, const void** data,
                                      int64_t* count) {
  return wall(__func__, [&] {
    const checkpoint::Extras::Value& value = get(extras)->values.at(text(name, "name"));
    expect(value.dtype == to_dtype(dtype) && !value.is_text, Status::TYPE_MISMATCH, "user value '", value.name,
           "': expected ", ostraka::name(to_dtype(dtype)), ", found ",
           value.is_text ? "text" : ostraka::name(value.dtype));
    const void*& address = output(data, "data");
    output(count, "count") = layout::numel(value.shape);
    address = value.bytes.data();
  });
}

ostraka_status_t ostraka_extras_type(ostraka_extras_t extras, const char* name, int32_t* dtype, int32_t* is_text,
                                     int32_t* ndim, int64_t* extents) {
  return wall(__func__, [&] {
    const checkpoint::Extras::Value& value = get(extras)->values.at(text(name, "name"));
    int32_t& kind = output(dtype, "dtype");
    int32_t& is_characters = output(is_text, "is_text");
    from_shape(value.shape, ndim, extents);
    kind = static_cast<int32_t>(value.dtype);
    is_characters = value.is_text ? 1 : 0;
  });
}

ostraka_status_t ostraka_extras_has(ostraka_extras_t extras, const char* name, int32_t* has) {
  return wall(__func__, [&] { output(has, "has") = get(extras)->values.has(text(name, "name")) ? 1 : 0; });
}

ostraka_status_t ostraka_extras_num_values(ostraka_extras_t extras, int32_t* num_values) {
  return wall(__func__,
              [&] { output(num_values, "num_values") = static_cast<int32_t>(get(extras)->values.values().size()); });
}

ostraka_status_t ostraka_extras_name(ostraka_extras_t extras, int32_t index, const char** name) {
  return wall(__func__, [&] {
    const auto& values = get(extras)->values.values();
    output(name, "name") = values[index_of("a value", index, std::ssize(values))].name.c_str();
  });
}

ostraka_status_t ostraka_extras_add_buffer(ostraka_extras_t extras, ostraka_buffer_t buffer, int32_t num_names,
                                           const char* const* names) {
  return wall(__func__, [&] {
    const auto object = get(extras);
    const buffer::DBuffer& values = get(buffer)->buffer;
    expect(num_names == values.layout()->num_tensors(), Status::SHAPE_MISMATCH, "expected a name for each of ",
           values.layout()->num_tensors(), " tensors, found ", num_names);
    object->fields.push_back({to_strings(num_names, names, "names"), values});
  });
}
}
