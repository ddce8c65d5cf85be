// SPDX-License-Identifier: Apache-2.0
// Random chains of redistributions, casts, views and transfers against plain vectors that hold what all ranks should
// have.
#include "chain_model.hpp"
#include "support/rounds.hpp"

#include <deque>

namespace ostraka::buffer::test {
namespace {

struct Mesh {
  std::vector<int> sizes;
  MeshPtr mesh;
};

/// How often the chains of a test did what they are for.
struct Tally {
  int chains = 0, redistributions = 0, reductions = 0, refusals = 0, views = 0, casts = 0, transfers = 0;
};

class Chain {
public:
  Chain(unsigned seed, const std::vector<Mesh>& meshes, std::size_t start, Tally& tally)
      : random_(seed), meshes_(meshes), tally_(tally) {
    const DType dtype = all_types[random_() % 7];
    is_rough_ = (dtype == DType::bf16 || dtype == DType::f16) && random_() % 2 == 0;
    const std::vector<int>& sizes = meshes[start].sizes;
    shapes_ = draw_shapes(random_);
    const LayoutPtr layout = draw_layout(random_, shapes_);
    model_ = {sizes, layout, draw_placements(random_, sizes.size(), dtype), dtype, places_in(*layout), {}};
    model_.held.assign(static_cast<std::size_t>(ranks), std::vector<double>(model_.places.size()));
    buffer_ = make(meshes[start].mesh, model_.placements, layout, dtype);
    buffer_.set_name("chain");
    refill();
  }

  void step() {
    switch (pick(random_, 0, 9)) {
    case 0:
      return cast();
    case 1:
    case 2:
      return view();
    case 3:
      return transfer();
    default:
      return redistribute();
    }
  }

  std::string text() const {
    return to_string(model_.placements) + " of " + name(model_.dtype) + ", " + name(model_.layout->policy()) +
           (is_rough_ ? ", rough" : "");
  }

  void expect_model() const {
    EXPECT_EQ(buffer_.placements(), model_.placements);
    EXPECT_EQ(buffer_.dtype(), model_.dtype);
    EXPECT_EQ(buffer_.range(), range_of(*model_.layout, model_.placements, model_.sizes, rank));
    expect_values(buffer_, model_.own());
  }

private:
  /// In the arena, or in memory of the caller that is not aligned.
  DBuffer make(const MeshPtr& mesh, const Placements& placements, const LayoutPtr& layout, DType dtype) {
    if (random_() % 4 != 0)
      return DBuffer(mesh, placements, layout, dtype);
    const Range range = range_of(*layout, placements, coordinates_sizes(*mesh), rank);
    auto& memory = memory_.emplace_back(mesh->device(), (range.size() + 1) * width_of(dtype));
    return DBuffer::from_local(memory.data() + width_of(dtype), range.size(), mesh, placements, layout, dtype);
  }
  static std::vector<int> coordinates_sizes(const mesh::DeviceMesh& mesh) {
    const auto sizes = mesh.position().sizes;
    return {sizes.begin(), sizes.end()};
  }

  DBuffer make_spoiled(const Placements& placements) {
    const DBuffer out = make(buffer_.mesh(), placements, buffer_.layout(), buffer_.dtype());
    spoil(out);
    return out;
  }

  void refill() {
    draw_contents(random_, model_, is_rough_);
    fill(buffer_, model_.own());
  }

  Placements draw_target() {
    for (int attempt = 0; attempt < 20; ++attempt) {
      const Placements candidate = draw_placements(random_, model_.sizes.size(), model_.dtype);
      if (is_legal(model_.placements, candidate)) {
        if (!(candidate == model_.placements) || attempt > 15)
          return candidate;
      } else if (random_() % 4 == 0) {
        ++tally_.refusals;
        expect_error(Status::NOT_SUPPORTED, [&] { buffer_.redistribute(candidate); },
                     {to_string(model_.placements), to_string(candidate)});
      }
    }
    return model_.placements;
  }

  void redistribute() {
    const Placements to = draw_target();
    SCOPED_TRACE("to " + to_string(to));
    tally_.redistributions += !(to == model_.placements);
    tally_.reductions += has_partial(model_.placements) && !has_partial(to);
    const int form = pick(random_, 0, 2);
    if (form == 2) {
      buffer_ = redistribute_in_place(to);
    } else {
      const std::vector<std::byte> before = bytes_of(buffer_);
      const DBuffer out = form == 1 ? make_spoiled(to) : DBuffer();
      const DBuffer result = buffer_.redistribute(to, form == 1 ? &out : nullptr);
      EXPECT_TRUE(form == 0 || result.storage() == out.storage());
      EXPECT_EQ(bytes_of(buffer_), before);
      buffer_ = result;
    }
    model_.redistribute(to);
  }

  // The larger of the two ranges holds both.
  DBuffer redistribute_in_place(const Placements& to) {
    if (std::count(to.begin(), to.end(), S) >= std::count(model_.placements.begin(), model_.placements.end(), S)) {
      const DBuffer out = buffer_.view(to);
      return buffer_.redistribute(to, &out);
    }
    const DBuffer out = make_spoiled(to), in = out.view(model_.placements);
    buffer_.redistribute(model_.placements, &in);
    return in.redistribute(to, &out);
  }

  void cast() {
    // Rough values stay in types of which the rounding is modelled; integers have no mean.
    std::vector<DType> to(std::begin(all_types), std::end(all_types));
    if (is_rough_)
      to = {DType::bf16, DType::f16};
    else if (has(model_.placements, ReduceOp::mean))
      to.assign(std::begin(floating_types), std::end(floating_types));
    const DType dtype = to[random_() % to.size()];
    SCOPED_TRACE(std::string("as ") + name(dtype));
    ++tally_.casts;
    if (random_() % 2 == 0) {
      buffer_ = buffer_.cast(dtype);
    } else {
      const DBuffer out = make(buffer_.mesh(), model_.placements, model_.layout, dtype);
      spoil(out);
      buffer_ = buffer_.cast(dtype, &out);
    }
    model_.cast(dtype);
  }

  // Values that were not reduced mean nothing under other placements.
  void view() {
    const Placements to = draw_placements(random_, model_.sizes.size(), model_.dtype);
    if (std::count(to.begin(), to.end(), S) < std::count(model_.placements.begin(), model_.placements.end(), S))
      return;
    ++tally_.views;
    buffer_ = buffer_.view(to);
    const bool keeps_meaning = !has_partial(model_.placements) && !has_partial(to);
    model_.placements = to;
    if (!keeps_meaning)
      refill();
  }

  // To another layout, another mesh; sometimes back again.
  void transfer() {
    const Mesh& other = meshes_[random_() % meshes_.size()];
    const LayoutPtr layout = draw_layout(random_, shapes_);
    const DBuffer out =
        make(other.mesh, draw_placements(random_, other.sizes.size(), model_.dtype, false), layout, model_.dtype);
    if (has_partial(model_.placements)) {
      ++tally_.refusals;
      expect_error(Status::NOT_SUPPORTED, [&] { buffer_.redistribute_into(out); }, {to_string(model_.placements)});
      return;
    }
    SCOPED_TRACE("into " + to_string(out.placements()) + ", " + name(layout->policy()));
    ++tally_.transfers;
    fill(out, [](std::int64_t) { return 77; }); // padding is left as it is
    const std::vector<std::byte> before = bytes_of(buffer_);
    buffer_.redistribute_into(out);
    EXPECT_EQ(bytes_of(buffer_), before);
    if (random_() % 4 == 0) {
      fill(buffer_, [](std::int64_t) { return 78; });
      out.redistribute_into(buffer_);
      return;
    }
    model_.transfer(other.sizes, layout, out.placements());
    buffer_ = out;
    buffer_.set_name("chain");
  }

  Random random_;
  const std::vector<Mesh>& meshes_;
  Tally& tally_;
  std::vector<Shape> shapes_;
  bool is_rough_ = false;
  Model model_;
  DBuffer buffer_;
  std::deque<CallerMemory> memory_; ///< of the caller
};

void run_chain(unsigned seed, const std::vector<Mesh>& meshes, std::size_t start, Tally& tally) {
  Chain chain(seed, meshes, start, tally);
  ++tally.chains;
  for (int k = 0; k < 8; ++k) {
    SCOPED_TRACE("step " + std::to_string(k) + " from " + chain.text());
    chain.step();
    chain.expect_model(); // a rank that finds an error goes on, since the others wait for it in the next step
  }
}

// Two seeds x the meshes of a number of ranks x 50 chains of 8 steps: 400 with 1, 2, 3, 6 and 8 ranks (4 meshes each),
// 600 with 4 (6 meshes): 2,600 in the entries buffer_np*, 5,600 with those without checks and on nodes.
TEST(Chains, AgreeWithPlainVectors) {
  std::vector<Mesh> meshes;
  for (const std::vector<int>& sizes : all_meshes())
    meshes.push_back({sizes, mesh_of(sizes)});
  Tally tally;
  for (const std::uint64_t seed : {std::uint64_t{1}, fresh_seed("Chains.AgreeWithPlainVectors")})
    for (std::size_t start = 0; start < meshes.size(); ++start)
      for (int chain = 0; chain < ostraka::test::rounds(50); ++chain) {
        SCOPED_TRACE("seed " + std::to_string(seed) + ", mesh " + std::to_string(start) + ", chain " +
                     std::to_string(chain));
        run_chain(static_cast<unsigned>(seed + 1000 * static_cast<std::uint64_t>(chain)), meshes, start, tally);
        if (chain % 10 == 9) {
          ASSERT_FALSE(has_failed_anywhere());
        }
      }
  for (const Mesh& mesh : meshes)
    for (int kind = 0; kind < memory::num_kinds; ++kind) // cases.md 36
      EXPECT_EQ(mesh.mesh->arena()->usage(static_cast<memory::Kind>(kind)).in_use, 0);
  EXPECT_GT(tally.redistributions, 2 * tally.chains);
  for (const int number : {tally.reductions, tally.refusals, tally.views, tally.casts, tally.transfers})
    EXPECT_GT(number, tally.chains / 5);
  if (rank == 0)
    std::printf("%d chains: %d redistributions (%d reductions), %d refusals, %d views, %d casts, %d transfers\n",
                tally.chains, tally.redistributions, tally.reductions, tally.refusals, tally.views, tally.casts,
                tally.transfers);
}

} // namespace
} // namespace ostraka::buffer::test
