// SPDX-License-Identifier: Apache-2.0
// The reference builder of spec 1.4. Every choice here is bit-exact with it and must stay so: "least padding" is the
// business of planned.cpp.
#include <ostraka/base/checked.hpp>
#include <ostraka/base/error.hpp>
#include <ostraka/layout/builders.hpp>
#include <ostraka/layout/impl/describe.hpp>

#include <algorithm>
#include <numeric>
#include <utility>

namespace ostraka::layout {
namespace {

constexpr const char* operation = "build_reference";

struct Piece {
  std::size_t tensor;
  std::int64_t numel;
  std::int64_t row; ///< or block of rows
  bool placed = false;
};

Piece measure(std::size_t index, const Shape& shape, std::int64_t block_rows) {
  if (rows(shape) % block_rows != 0)
    fail(Status::INVALID_ARGUMENT, "build_reference: ", impl::describe(index, shape), ": expected ", rows(shape),
         " rows to be a multiple of the block of ", block_rows);
  const std::int64_t row =
      impl::naming(operation, index, shape, [&] { return multiply(block_rows, row_numel(shape), "block"); });
  if (row == 0)
    fail(Status::INVALID_ARGUMENT, "build_reference: ", impl::describe(index, shape),
         ": expected extents >= 1 after the first dimension, found 0");
  return {index, impl::numel_of(operation, index, shape), row};
}

std::vector<Piece> measure(const std::vector<Shape>& shapes, std::int64_t block_rows) {
  std::vector<Piece> pieces;
  pieces.reserve(shapes.size());
  for (std::size_t i = 0; i < shapes.size(); ++i)
    pieces.push_back(measure(i, shapes[i], block_rows));
  return pieces;
}

/// The least common multiple of all rows, those of empty tensors included: the unit of every cut.
std::int64_t common_chunk(const std::vector<Piece>& pieces, const std::vector<Shape>& shapes) {
  std::int64_t chunk = 1;
  for (const Piece& piece : pieces) {
    const std::int64_t factor = piece.row / std::gcd(chunk, piece.row);
    if (__builtin_mul_overflow(chunk, factor, &chunk))
      fail(Status::INVALID_ARGUMENT, "build_reference: ", impl::describe(piece.tensor, shapes[piece.tensor]),
           ": expected rows with a common multiple within 64 bits, found rows of ", piece.row,
           " elements, which exceed it together with the tensors before");
  }
  return chunk;
}

/// Places tensors one after the other; the state of the algorithm of spec 1.4.4.
class Placer {
public:
  Placer(const std::vector<Shape>& shapes, const std::vector<Piece>& pieces, std::int64_t chunk)
      : shapes_(shapes), chunk_(chunk), offsets_(shapes.size(), 0) {
    for (const Piece& piece : pieces)
      (piece.numel < chunk ? fragments_ : regulars_).push_back(piece);
    std::stable_sort(fragments_.begin(), fragments_.end(),
                     [](const Piece& a, const Piece& b) { return a.numel > b.numel; });
  }

  /// Places everything and returns where the last tensor's space ends.
  std::int64_t run() {
    for (std::size_t i = 0; i < regulars_.size(); ++i)
      if (!regulars_[i].placed)
        naming(regulars_[i], [&] { place_regular(i); });
    for (Piece& fragment : fragments_)
      if (!fragment.placed)
        naming(fragment, [&] { place_leftover(fragment); });
    return cursor_;
  }

  std::vector<std::int64_t> take_offsets() { return std::move(offsets_); }

private:
  void place(Piece& piece, std::int64_t offset) {
    piece.placed = true;
    offsets_[piece.tensor] = offset;
  }

  /// A tensor that ends inside a chunk leaves a gap there, into which other tensors are fitted.
  void place_regular(std::size_t index) {
    Piece& piece = regulars_[index];
    place(piece, cursor_);
    const std::int64_t tail = add(cursor_, piece.numel, "end");
    cursor_ = round_up(tail, chunk_, "end of the last chunk");
    if (tail == cursor_)
      return;
    fill_gap({tail, place_conjugate(index)});
  }

  /// Fits the first later tensor whose incomplete chunk shares the last chunk of tensor `index` so that its whole
  /// chunks follow; returns where the gap ends.
  std::int64_t place_conjugate(std::size_t index) {
    const std::int64_t rest = regulars_[index].numel % chunk_;
    const auto fits = [&](const Piece& other) {
      const std::int64_t head = other.numel % chunk_;
      return !other.placed && head != 0 && head <= chunk_ - rest;
    };
    const auto later = regulars_.begin() + static_cast<std::ptrdiff_t>(index) + 1;
    const auto found = std::find_if(later, regulars_.end(), fits);
    if (found == regulars_.end())
      return cursor_;
    const std::int64_t head = found->numel % chunk_;
    const std::int64_t gap_end = cursor_ - head;
    place(*found, gap_end);
    cursor_ = add(cursor_, found->numel - head, "end");
    return gap_end;
  }

  /// First fit in one pass, largest fragment first.
  void fill_gap(Range gap) {
    for (Piece& piece : fragments_) {
      if (piece.placed)
        continue;
      const std::int64_t start = round_up(gap.begin, piece.row, "offset");
      if (start > gap.end || piece.numel > gap.end - start)
        continue;
      place(piece, start);
      gap.begin = start + piece.numel;
    }
  }

  void place_leftover(Piece& piece) {
    const std::int64_t start = round_up(cursor_, piece.row, "offset");
    place(piece, start);
    cursor_ = add(start, piece.numel, "end");
  }

  /// Errors of `action` name the tensor at work.
  template <class Action>
  void naming(const Piece& piece, Action action) const {
    impl::naming(operation, piece.tensor, shapes_[piece.tensor], action);
  }

  const std::vector<Shape>& shapes_;
  std::int64_t chunk_;
  std::int64_t cursor_ = 0;
  std::vector<Piece> regulars_;
  std::vector<Piece> fragments_;
  std::vector<std::int64_t> offsets_;
};

} // namespace

GlobalLayout build_reference(std::vector<Shape> shapes, int segments, std::int64_t block_rows) {
  expect(segments >= 1, Status::INVALID_ARGUMENT, "build_reference: expected segments >= 1, found ", segments);
  expect(block_rows >= 1, Status::INVALID_ARGUMENT, "build_reference: expected blocks of at least 1 row, found ",
         block_rows);
  const std::vector<Piece> pieces = measure(shapes, block_rows);
  const std::int64_t chunk = common_chunk(pieces, shapes);
  Placer placer(shapes, pieces, chunk);
  const std::int64_t end = placer.run();
  const std::int64_t unit = multiply(chunk, segments, "build_reference: common multiple of the rows x segments");
  const std::int64_t size = round_up(end, unit, "build_reference: size with padding");
  return {Policy::reference, std::move(shapes), placer.take_offsets(), segments, size / segments};
}

} // namespace ostraka::layout
