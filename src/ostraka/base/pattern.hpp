// SPDX-License-Identifier: Apache-2.0
// Names by patterns.
#pragma once

#include <cstddef>
#include <string_view>

namespace ostraka {

/// Whether `name` is `pattern`, in which `*` stands for any characters and `?` for one.
inline bool matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size())
    if (p < pattern.size() && (pattern[p] == '?' || (pattern[p] == name[n] && pattern[p] != '*'))) {
      ++p;
      ++n;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (star != std::string_view::npos) { // the star takes one more
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

} // namespace ostraka
