#include "generation/model_run.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "ops/op.hpp"

namespace vkfuse::bench {

namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Result<Buffer> upload(const Device& device, const std::vector<std::int32_t>& numbers) {
  VKF_TRY(buffer, device.allocate(4 * numbers.size()));
  VKF_CHECK_OK(buffer.write(std::as_bytes(std::span(numbers))));
  return buffer;
}

std::vector<std::int32_t> words_from(std::int64_t first, std::int64_t count, const Job& job) {
  std::vector<std::int32_t> words;
  for (std::int64_t sequence = 0; sequence < job.step.sequences; ++sequence) {
    for (std::int64_t i = 0; i < count; ++i)
      words.push_back(static_cast<std::int32_t>(((first + i) * 7919 + sequence * 104729 + 17) % job.model.vocabulary));
  }
  return words;
}

}  // namespace

Result<Executable> compile_step(const Device& device, const Job& job, std::int64_t count, std::int64_t layers) {
  LanguageModel model = job.model;
  model.layers = layers;
  StepSizes sizes = job.step;
  sizes.count = count;
  const ModelStep step = model_step(model, job.weights, sizes);
  CompileOptions options;
  options.output_names = step.names;
  return compile(device, step.outputs, options);
}

Result<ModelRun> ModelRun::create(const Device& device, const Job& job) {
  VKF_TRY(step, compile_step(device, job, 1, job.model.layers));
  VKF_TRY(prompt, compile_step(device, job, job.chunk, job.model.layers));
  ModelRun made(device, job, std::move(prompt), std::move(step));
  VKF_CHECK_OK(made.allocate(model_step(job.model, job.weights, job.step)));
  return made;
}

Result<void> ModelRun::allocate(const ModelStep& step) {
  VKF_TRY(filled, fill_inputs(device_, step.inputs));
  inputs_ = std::move(filled);
  for (const auto& [name, input] : step.inputs) {
    if (input.filling == Filling::cache) caches_.emplace(name + "'", inputs_.at(name));
  }
  const std::vector<std::int32_t> zeros(static_cast<std::size_t>(job_.step.sequences));
  for (Turn& turn : turns_) {
    VKF_TRY(token, upload(device_, zeros));
    VKF_TRY(start, upload(device_, zeros));
    turn = {token, start};
  }
  return {};
}

Bindings ModelRun::bindings(const Buffer& tokens, const Buffer& start, const Turn& to) const {
  Bindings bound{.inputs = inputs_, .outputs = caches_};
  bound.inputs.insert({{"tokens", tokens}, {"start", start}});
  bound.outputs.insert({{"token", to.token}, {"start'", to.start}});
  return bound;
}

Result<double> ModelRun::read_prompt(std::int64_t tokens) {
  std::vector<Bindings> chunks;
  for (std::int64_t done = 0; done < tokens; done += job_.chunk) {
    VKF_TRY(words, upload(device_, words_from(done, job_.chunk, job_)));
    const auto sequences = static_cast<std::size_t>(job_.step.sequences);
    VKF_TRY(start, upload(device_, std::vector<std::int32_t>(sequences, static_cast<std::int32_t>(done))));
    chunks.push_back(bindings(words, start, turns_[0]));
  }
  const auto begin = std::chrono::steady_clock::now();
  std::optional<Submission> last;
  for (const Bindings& chunk : chunks) {
    VKF_TRY(submission, prompt_.submit(chunk));
    last = std::move(submission);
  }
  VKF_CHECK_OK(last->wait());
  return seconds_since(begin);
}

Result<void> ModelRun::put(std::int64_t token, std::int64_t start) {
  const std::vector<std::int32_t> tokens = words_from(token, 1, job_);
  const std::vector<std::int32_t> starts(tokens.size(), static_cast<std::int32_t>(start));
  VKF_CHECK_OK(turns_[0].token.write(std::as_bytes(std::span(tokens))));
  return turns_[0].start.write(std::as_bytes(std::span(starts)));
}

Result<double> ModelRun::generate(std::int64_t start, std::int64_t tokens, bool ahead) {
  VKF_CHECK_OK(put(start, start));
  const Bindings turns[2] = {bindings(turns_[0].token, turns_[0].start, turns_[1]),
                             bindings(turns_[1].token, turns_[1].start, turns_[0])};
  std::vector<std::int32_t> token(static_cast<std::size_t>(job_.step.sequences));
  std::optional<Submission> before;
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < tokens; ++i) {
    VKF_TRY(submission, step_.submit(turns[i % 2]));
    if (!ahead) VKF_CHECK_OK(turns_[(i + 1) % 2].token.read(std::as_writable_bytes(std::span(token))));
    if (ahead && before) VKF_CHECK_OK(before->wait());
    before = std::move(submission);
  }
  VKF_CHECK_OK(before->wait());
  return seconds_since(begin);
}

/// Of each position, the elements of all caches of the last layer, of the first sequence and its first head.
Result<std::vector<std::vector<double>>> ModelRun::rows_of_caches(std::int64_t positions) const {
  std::vector<std::vector<double>> rows(static_cast<std::size_t>(positions));
  for (const char* name : {" keys'", " values'"}) {
    std::vector<std::uint16_t> elements(static_cast<std::size_t>(positions * job_.model.head_size));
    const Buffer& cache = caches_.at(std::to_string(job_.model.layers - 1) + name);
    VKF_CHECK_OK(cache.read(std::as_writable_bytes(std::span(elements))));
    for (std::size_t i = 0; i < elements.size(); ++i)
      rows[i / static_cast<std::size_t>(job_.model.head_size)].push_back(ops::f16_to(elements[i]));
  }
  return rows;
}

Result<double> ModelRun::difference(std::int64_t positions, bool spoil) {
  VKF_CHECK_OK(read_prompt(job_.chunk));
  VKF_TRY(of_prompt, rows_of_caches(positions));
  for (std::int64_t i = 0; i < positions; ++i) {
    VKF_CHECK_OK(put(i, i + (spoil ? 1 : 0)));
    VKF_TRY(submission, step_.submit(bindings(turns_[0].token, turns_[0].start, turns_[1])));
    VKF_CHECK_OK(submission.wait());
  }
  VKF_TRY(of_steps, rows_of_caches(positions));
  std::vector<double> differences;
  for (std::size_t i = 0; i < of_prompt.size(); ++i) {
    double most = 0, largest = 0;
    for (std::size_t j = 0; j < of_prompt[i].size(); ++j) {
      const double off = std::abs(of_prompt[i][j] - of_steps[i][j]);
      most = std::isfinite(off) ? std::max(most, off) : HUGE_VAL;
      largest = std::max(largest, std::abs(of_prompt[i][j]));
    }
    differences.push_back(most / std::max(largest, 1e-30));
  }
  std::ranges::nth_element(differences, differences.begin() + static_cast<std::ptrdiff_t>(differences.size() / 2));
  return differences[differences.size() / 2];
}

Result<std::vector<KernelTime>> ModelRun::profile(std::int64_t start) {
  VKF_CHECK_OK(put(start, start));
  return step_.profile(bindings(turns_[0].token, turns_[0].start, turns_[1]));
}

}  // namespace vkfuse::bench
