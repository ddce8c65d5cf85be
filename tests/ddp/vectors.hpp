// SPDX-License-Identifier: Apache-2.0
// Parameters that are vectors, with gradients that are constants, so that sums are known.
#pragma once

#include "support.hpp"

namespace ostraka::ddp::test {

inline std::vector<double> constant(std::int64_t count, double value) {
  return std::vector<double>(static_cast<std::size_t>(count), value);
}

inline ParameterSpec vector_of(std::string name, std::int64_t size, DType dtype = DType::f64) {
  return {std::move(name), {size}, dtype};
}
inline ParameterSpec frozen(ParameterSpec spec) {
  spec.trainable = false;
  return spec;
}
inline ParameterSpec expert(ParameterSpec spec) {
  spec.expert = true;
  return spec;
}

/// Those of the ranks that have the experts of this one: `sharers` of them, every (ranks / sharers)-th.
struct Experts {
  explicit Experts(int sharers) : kinds(ranks / sharers) {
    MPI_Comm group = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank % kinds, rank, &group);
    mesh = mesh::DeviceMesh::create(group, {sharers});
    MPI_Comm_free(&group);
    for (int r = rank % kinds; r < ranks; r += kinds)
      sum += std::ldexp(1, r);
  }

  bool includes(int other) const { return other % kinds == rank % kinds; }

  int kinds;
  buffer::MeshPtr mesh;
  double sum = 0; ///< of 2^r over them
};

/// "a.w", "b.w", ... of 30 f64 each: with make_config, buckets of two.
inline std::vector<ParameterSpec> letters(int count, std::int64_t size = 30) {
  std::vector<ParameterSpec> specs;
  for (int i = 0; i < count; ++i)
    specs.push_back(vector_of(std::string(1, static_cast<char>('a' + i)) + ".w", size));
  return specs;
}

/// Weights start as 1, 2, ... in the order of registration.
class Vectors {
public:
  Vectors(const buffer::MeshPtr& mesh, const Config& config, std::vector<ParameterSpec> specs,
          const buffer::MeshPtr& expert_mesh = nullptr)
      : specs_(std::move(specs)), ddp(DistributedDataParallel::create(mesh, config, expert_mesh)) {
    for (const ParameterSpec& spec : specs_)
      ddp->add_parameter(spec);
    ddp->finalize();
    for (std::size_t i = 0; i < specs_.size(); ++i)
      set(specs_[i].name, static_cast<double>(i) + 1);
  }

  const std::vector<ParameterSpec>& specs() const { return specs_; }
  const ParameterSpec& spec(const std::string& name) const {
    return *std::find_if(specs_.begin(), specs_.end(), [&](const auto& spec) { return spec.name == name; });
  }
  std::int64_t size(const std::string& name) const { return layout::numel(spec(name).shape); }

  void set(const std::string& name, double value) {
    ddp->set_parameter(name, constant(size(name), value).data(), size(name), DType::f64);
  }
  void expect_weight(const std::string& name, double value) {
    const DType dtype = spec(name).dtype;
    EXPECT_EQ(elements_at(ddp->parameter(name, dtype), size(name), dtype), constant(size(name), value)) << name;
  }

  /// Adds `value` to every element of the gradient; returns beta.
  double write(const std::string& name, double value) {
    const DType dtype = ddp->gradient_dtype(name);
    const auto place = ddp->gradient(name, dtype);
    on_stream(ddp->mesh()->device(), [=, values = constant(size(name), value)] { add_elements(place, values, dtype); });
    return place.beta;
  }
  double contribute(const std::string& name, double value) {
    const double beta = write(name, value);
    ddp->gradient_ready(name);
    return beta;
  }
  /// To all trainable parameters, the last one first.
  void backward(double value) {
    for (auto spec = specs_.rbegin(); spec != specs_.rend(); ++spec)
      if (spec->trainable)
        contribute(spec->name, value);
  }

  /// This rank's elements of the reduced gradient; all ranks together have all, `holders` times. Collective.
  void expect_gradient(const std::string& name, double expected, int holders) {
    const DType dtype = main_dtype_of(ddp->config(), spec(name).dtype);
    const buffer::TensorRange own = ddp->main_gradient(name, dtype);
    EXPECT_EQ(elements_at(own.data, own.count, dtype), constant(own.count, expected)) << name;
    EXPECT_EQ(sum_over_ranks(own.count), size(name) * holders) << name;
  }
  void expect_gradient(const std::string& name, double expected) {
    expect_gradient(name, expected,
                    ddp->config().sharded_optimizer ? ranks / ddp->mesh()->axis_size(last_axis()) : ranks);
  }
  void expect_gradients(double expected) {
    for (const ParameterSpec& spec : specs_)
      if (spec.trainable)
        expect_gradient(spec.name, expected);
  }

  /// What has to work after every error that is not terminal: a step in which rank r contributes r + 1. Collective.
  void expect_usable(const std::string& what) {
    SCOPED_TRACE("a step after " + what);
    try {
      ddp->zero_grad_buffer();
      backward(rank + 1);
      ddp->finish_grad_sync();
    } catch (const Error& error) {
      ADD_FAILURE() << "not usable after " << what << ": " << error.what();
      return;
    }
    expect_gradients(ddp->config().scaling == Scaling::sum ? sum_of_ranks() : sum_of_ranks() / ranks);
  }

private:
  int last_axis() const { return ddp->mesh()->dims() - 1; }
  std::vector<ParameterSpec> specs_;

public:
  DdpPtr ddp;
};

/// Where the whole gradient stands; the reduced one is its part.
inline const void* address_of(Vectors& v, const std::string& name) {
  for (const buffer::NamedState& state : v.ddp->named_states())
    for (std::size_t i = 0; i < state.tensor_names.size(); ++i)
      if (state.tensor_names[i] == name) {
        const buffer::DBuffer& part = state.main_gradient;
        const std::int64_t first = state.main_gradient.layout()->tensor_range(static_cast<int>(i)).begin;
        return static_cast<const double*>(part.data()) + (first - part.range().begin);
      }
  return nullptr;
}

/// Vectors whose weights every step lowers by one.
class Lowered : public Vectors {
public:
  Lowered(const buffer::MeshPtr& mesh, const Config& config, std::vector<ParameterSpec> specs = letters(8))
      : Vectors(mesh, config, std::move(specs)), optimizer(optim::make_sgd(ddp->named_states(), {.learning_rate = 1})) {
  }

  void step() {
    ddp->zero_grad_buffer();
    backward(1);
    ddp->finish_grad_sync();
    optimizer->step();
    ++steps;
  }
  void expect_current(const std::string& name) {
    for (std::size_t i = 0; i < specs().size(); ++i)
      if (specs()[i].name == name)
        expect_weight(name, static_cast<double>(i) + 1 - (specs()[i].trainable ? steps : 0));
  }
  void expect_all_current() {
    for (const ParameterSpec& spec : specs())
      expect_current(spec.name);
  }

  std::unique_ptr<optim::Optimizer> optimizer;
  int steps = 0;
};

} // namespace ostraka::ddp::test
