// SPDX-License-Identifier: Apache-2.0
#include "drawing.hpp"

#include "render.hpp"

#include <array>
#include <cmath>
#include <cstdio>

namespace ostraka::tool {

std::string at(double value) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.2f", value);
  return text.data();
}

std::string text_element(double x, double y, std::string_view text, std::string_view attributes) {
  return "<text x=\"" + at(x) + "\" y=\"" + at(y) + "\"" + std::string(attributes) + ">" + escaped(std::string(text)) +
         "</text>\n";
}

std::string box_element(double x, double y, double w, double h, std::string_view kind, std::string_view title,
                        std::string_view attributes) {
  return "<rect class=\"" + std::string(kind) + "\" x=\"" + at(x) + "\" y=\"" + at(y) + "\" width=\"" + at(w) +
         "\" height=\"" + at(h) + "\"" + std::string(attributes) + "><title>" + escaped(std::string(title)) +
         "</title></rect>\n";
}

double tick_step(double most) {
  const double power = std::pow(10.0, std::floor(std::log10(most / 5)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (most / (factor * power) <= 6)
      return factor * power;
  return 10 * power;
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text)
    switch (c) {
    case '&':
      result += "&amp;";
      break;
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '"':
      result += "&quot;";
      break;
    case '\'':
      result += "&#39;";
      break;
    default:
      // XML has no place for control characters.
      result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  return result;
}

} // namespace ostraka::tool
