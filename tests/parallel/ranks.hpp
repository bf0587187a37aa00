// Jobs of several ranks in one process, and their reference.
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <thread>

#include "parallel/joined.hpp"
#include "parallel/local_inputs.hpp"
#include "support/compare.hpp"
#include "vkfuse/parallel.hpp"

namespace vkfuse::test {

/// What rank `rank` gives, each on a thread. What one throws is thrown when all have ended.
template <typename T>
std::vector<T> on_ranks(int ranks, const std::function<T(int rank, std::shared_ptr<Transport> transport)>& on_rank) {
  const auto transports = must(thread_transports(ranks));
  std::vector<std::optional<T>> made(static_cast<std::size_t>(ranks));
  std::vector<std::exception_ptr> thrown(made.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    threads.emplace_back([&, rank, at] {
      try {
        made[at].emplace(on_rank(rank, transports[at]));
      } catch (...) {
        thrown[at] = std::current_exception();
        transports[at]->fail("its test has thrown");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& one : thrown) {
    if (one) std::rethrow_exception(one);
  }
  std::vector<T> all;
  for (std::optional<T>& one : made) all.push_back(*std::move(one));
  return all;
}

/// A program that is divided over a mesh, or, without one, a graph for each rank.
struct Job {
  std::vector<ir::Graph> graphs;  ///< one that all ranks are given, or one for each
  std::vector<int> mesh;
  int ranks = 1;
  std::vector<Data> data;  ///< as many as graphs
  /// The device of a rank; null: the device under test.
  std::function<const Device&(int rank)> device;
  bool fusion = true;
  /// What carries values, made of what carries messages; null: the same.
  std::function<std::shared_ptr<Transport>(std::shared_ptr<Transport>)> transport;
  int micro_batches = 1;

  [[nodiscard]] const ir::Graph& graph(int rank) const {
    return graphs[graphs.size() == 1 ? 0 : static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] const Data& data_of(int rank) const {
    return data[data.size() == 1 ? 0 : static_cast<std::size_t>(rank)];
  }
};

/// A graph that every rank runs, with other data on each; over a mesh, with the same.
Job job_of(const ir::Graph& graph, int ranks, std::vector<int> mesh = {});

/// What the ranks of a job made.
struct JobResult {
  std::vector<Result<Outputs>> outputs;
  int collectives = 0;  ///< of rank 0
  int kernels = 0;
  std::string explained;           ///< rank 0's plan
  std::vector<std::string> plans;  ///< of each rank
};
JobResult run_job(const Job& job);

/// Adds a test failure for whatever is wrong with what the ranks gave: an element outside the bound of the reference
/// over all ranks, and, of a divided program, a reference over ranks whose parts are not those of the reference of one.
/// Outputs are named by parallel::name_on().
void check_job_outputs(const Job& job, const NamedBytes& outputs, const std::string& what);

/// Runs and checks; an error is a test failure, too.
JobResult check_job(const Job& job, const std::string& what);

}  // namespace vkfuse::test
