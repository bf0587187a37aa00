// Runs of one program on several threads at once.
#pragma once

#include <condition_variable>
#include <list>

#include "runtime/host_run.hpp"

namespace vkfuse::runtime {

/// Keeps some HostRuns, each with an arena and buffers of its own. Thread-safe.
class RunPool {
 public:
  explicit RunPool(std::shared_ptr<Program> program) : program_(std::move(program)) {}

  /// A run that nobody else uses meanwhile; it goes back when the lease ends.
  class Lease {
   public:
    Lease(RunPool& pool, const SymbolValues& symbols, std::unique_ptr<HostRun> run)
        : pool_(&pool), symbols_(symbols), run_(std::move(run)) {}
    Lease(Lease&&) = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (run_) pool_->give_back(symbols_, std::move(run_));
    }
    HostRun* operator->() const { return run_.get(); }

   private:
    RunPool* pool_;
    SymbolValues symbols_;
    std::unique_ptr<HostRun> run_;
  };

  /// Waits while as many runs as the pool holds are in use, or while those in use have the memory that one more would
  /// need.
  Result<Lease> take(const SymbolValues& symbols);

 private:
  struct Idle {
    SymbolValues symbols;
    std::unique_ptr<HostRun> run;
  };
  void give_back(const SymbolValues& symbols, std::unique_ptr<HostRun> run);

  std::shared_ptr<Program> program_;
  std::mutex mutex_;
  std::condition_variable returned_;
  std::list<Idle> idle_;  ///< most recently used first
  std::size_t alive_ = 0;
  std::uint64_t returns_ = 0;
};

}  // namespace vkfuse::runtime
