// SPDX-License-Identifier: Apache-2.0
// std::function for work that is queued all the time: its memory is recycled, and it need not be copied.
#pragma once

#include <ostraka/base/recycle.hpp>

#include <memory>
#include <type_traits>
#include <utility>

namespace ostraka {

template <class Signature>
class Callable;

/// Movable only.
template <class Result, class... Arguments>
class Callable<Result(Arguments...)> {
public:
  template <class Function>
  requires(!std::is_same_v<std::remove_cvref_t<Function>, Callable>) Callable(Function&& function)
      : held_(new Holder<std::decay_t<Function>>(std::forward<Function>(function))) {}

  Result operator()(Arguments... arguments) const { return held_->call(std::forward<Arguments>(arguments)...); }

private:
  struct Held {
    virtual ~Held() = default;
    virtual Result call(Arguments... arguments) = 0;
    static void* operator new(std::size_t bytes) { return take_recycled(bytes); }
    static void operator delete(void* memory, std::size_t bytes) noexcept { recycle(memory, bytes); }
  };

  template <class Function>
  struct Holder final : Held {
    template <class From>
    explicit Holder(From&& from) : function(std::forward<From>(from)) {}
    Result call(Arguments... arguments) override { return function(std::forward<Arguments>(arguments)...); }
    Function function;
  };

  std::unique_ptr<Held> held_;
};

} // namespace ostraka
