// SPDX-License-Identifier: Apache-2.0
// What the drawings of a study share.
#pragma once

#include <string>
#include <string_view>

namespace ostraka::tool {

inline constexpr double picture_width = 960, label_width = 150, number_width = 110;
inline constexpr double plot_width = picture_width - label_width - number_width;

/// A coordinate, to a hundredth.
std::string at(double value);

/// <text> at (x, y); `attributes` with a leading space.
std::string text_element(double x, double y, std::string_view text, std::string_view attributes = "");

/// A filled box of class `kind` with a title for pointers and readers of screens.
std::string box_element(double x, double y, double w, double h, std::string_view kind, std::string_view title,
                        std::string_view attributes = "");

/// The step between marks of an axis: 1, 2 or 5 times a power of ten, about a fifth of `most`.
double tick_step(double most);

} // namespace ostraka::tool
