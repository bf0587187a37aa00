#include "runtime/run_pool.hpp"

#include <algorithm>

namespace vkfuse::runtime {

namespace {

constexpr std::size_t kMostRuns = 4;  // each holds device memory

}  // namespace

Result<RunPool::Lease> RunPool::take(const SymbolValues& symbols) {
  VKF_TRY(specialization, program_->specialization(symbols));
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    const auto known = std::find_if(idle_.begin(), idle_.end(), [&](const Idle& one) {
      return one.symbols == symbols && one.run->specialization() == specialization;
    });
    if (known != idle_.end()) {
      std::unique_ptr<HostRun> run = std::move(known->run);
      idle_.erase(known);
      return Lease(*this, symbols, std::move(run));
    }
    if (alive_ == kMostRuns && idle_.empty()) {
      returned_.wait(lock);
      continue;
    }
    if (alive_ == kMostRuns) {
      idle_.pop_back();
      --alive_;
    }
    ++alive_;
    const std::uint64_t seen = returns_;
    lock.unlock();  // others may go on while buffers are allocated and commands recorded
    auto made = HostRun::create(program_, specialization);
    if (made) return Lease(*this, symbols, *std::move(made));
    lock.lock();
    --alive_;
    returned_.notify_all();
    const bool out_of_memory = made.error().code == ErrorCode::out_of_memory;
    if (out_of_memory && !idle_.empty()) {
      alive_ -= idle_.size();
      idle_.clear();
    } else if (out_of_memory && alive_ > 0) {
      returned_.wait(lock, [&] { return returns_ != seen || alive_ == 0; });
    } else {
      return std::move(made).error();
    }
  }
}

void RunPool::give_back(const SymbolValues& symbols, std::unique_ptr<HostRun> run) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_front({symbols, std::move(run)});
    ++returns_;
  }
  returned_.notify_all();
}

}  // namespace vkfuse::runtime
