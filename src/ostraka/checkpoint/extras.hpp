// SPDX-License-Identifier: Apache-2.0
// What a simulation saves of its own, equal on all ranks: numbers, arrays, text, by name. Small: every rank keeps them.
#pragma once

#include <ostraka/base/dtype.hpp>
#include <ostraka/base/export.hpp>
#include <ostraka/layout/shape.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ostraka::checkpoint {

class OSTRAKA_API Extras {
public:
  struct Value {
    std::string name;
    DType dtype = DType::u8;
    layout::Shape shape;  ///< none for a number, {bytes} for text
    bool is_text = false; ///< UTF-8, dtype u8
    std::vector<std::byte> bytes;

    bool operator==(const Value&) const = default;
  };

  /// Each replaces an earlier value of that name. Throw INVALID_ARGUMENT for an empty name, a name or text with a zero
  /// byte, and a negative extent; set() SHAPE_MISMATCH and TYPE_MISMATCH for bytes that are not as the rest says.
  void set_f64(const std::string& name, double value);
  void set_i64(const std::string& name, std::int64_t value);
  void set_text(const std::string& name, const std::string& text);
  /// Copies numel(shape) elements of any type, C order.
  void set_array(const std::string& name, DType dtype, layout::Shape shape, const void* data);
  void set(Value value);

  bool has(const std::string& name) const { return find(name) != nullptr; }
  const Value* find(const std::string& name) const; ///< null when it is not there
  /// Throw INVALID_ARGUMENT naming what is there for an unknown name, TYPE_MISMATCH for a value of another kind.
  const Value& at(const std::string& name) const;
  double f64(const std::string& name) const;
  std::int64_t i64(const std::string& name) const;
  std::string text(const std::string& name) const;

  const std::vector<Value>& values() const { return values_; } ///< in the order of their first set

private:
  std::vector<Value> values_; ///< in the order of their first set
};

} // namespace ostraka::checkpoint
