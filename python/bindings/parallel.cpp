// Programs of several ranks, and transports: the library's own, and those that are classes of Python.
#include "vkfuse/parallel.hpp"

#include <nanobind/ndarray.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <mutex>
#include <tuple>

#include "bind.hpp"
#include "device.hpp"
#include "parallel/functions.hpp"
#include "run.hpp"
#include "vkfuse/nccl.hpp"

namespace vkfuse::python {

using namespace nb::literals;

namespace {

// ---- transports ----

/// Bytes of an exchange as an array, which keeps the memory that they lie in.
template <typename Element, typename Byte>
nb::object array_of(std::span<Byte> bytes, const std::shared_ptr<void>& memory) {
  const nb::capsule owner(new std::shared_ptr<void>(memory), [](void* kept) noexcept {
    without_gil([kept] { delete static_cast<std::shared_ptr<void>*>(kept); });
  });
  const std::size_t shape[] = {bytes.size()};
  using Made = nb::ndarray<nb::numpy, Element, nb::ndim<1>>;
  return nb::cast(Made(reinterpret_cast<Element*>(bytes.data()), 1, shape, owner));
}

/// What a transport raises. A FileError's sentence is that of the run's error; others are of the operating system's
/// kind, as TimeoutError and ConnectionError are, or a defect of the transport.
Error error_of(const nb::python_error& raised, int rank) {
  if (raised.matches(PyExc_KeyboardInterrupt)) PyErr_SetInterrupt();  // again, when the run has ended with its error
  auto text = nb::cast<std::string>(nb::str(raised.value()));
  while (!text.empty() && text.back() == '.') text.pop_back();
  if (raised.matches(nb::module_::import_("vkfuse._errors").attr("FileError")))
    return make_error(ErrorCode::io, "{}.", text);
  const auto type = nb::cast<std::string>(nb::str(raised.type().attr("__name__")));
  return make_error(raised.matches(PyExc_OSError) ? ErrorCode::io : ErrorCode::internal,
                    "The transport of rank {} raises {}: {}.", rank, type, text);
}

/// One exchange by the object that `weak` refers to.
Result<void> exchange_in_python(const Callback& weak, const Exchange& exchange, int rank) {
  Result<void> done = make_error(ErrorCode::io, "The interpreter of rank {} ends.", rank);
  const auto use = [&](const nb::object& self) {
    if (self.is_none()) {
      done = make_error(ErrorCode::io, "The transport of rank {} is gone.", rank);
      return;
    }
    nb::list sends, receives;
    for (const Send& one : exchange.sends)
      sends.append(nb::make_tuple(one.to, array_of<const std::uint8_t>(one.bytes, exchange.memory)));
    for (const Receive& one : exchange.receives)
      receives.append(nb::make_tuple(one.from, array_of<std::uint8_t>(one.bytes, exchange.memory)));
    const std::chrono::duration<double> left = exchange.deadline - std::chrono::steady_clock::now();
    try {
      self.attr("exchange")(exchange.number, sends, receives, std::max(left.count(), 0.0));
      done = {};
    } catch (const nb::python_error& raised) {
      done = error_of(raised, rank);
    }
  };
  weak.call([] { return nb::make_tuple(); }, use);
  return done;
}

void fail_in_python(const Callback& weak, std::string_view sentence) {
  weak.call([] { return nb::make_tuple(); },
            [&](const nb::object& self) {
              if (self.is_none()) return;
              try {
                self.attr("fail")(nb::str(sentence.data(), sentence.size()));
              } catch (nb::python_error& raised) {
                raised.discard_as_unraisable("fail() of a transport");
              }
            });
}

/// A transport as Python holds it.
class OpenTransport {
 public:
  explicit OpenTransport(std::shared_ptr<Transport> transport) : transport_(std::move(transport)) {}
  /// One whose exchange() and fail() a class of Python has.
  OpenTransport(int rank, int size) : weak_(std::make_shared<std::optional<Callback>>()), transport_(nullptr) {
    parallel::TransportFunctions functions{rank, size, {}, {}};
    functions.exchange = [weak = weak_, rank](const Exchange& one) { return exchange_in_python(**weak, one, rank); };
    functions.fail = [weak = weak_](std::string_view sentence) { fail_in_python(**weak, sentence); };
    *transport_ = value_of(parallel::transport_of(std::move(functions)));
  }

  [[nodiscard]] const Transport& get() const { return **transport_; }
  /// Whether a class of Python is what carries messages.
  [[nodiscard]] bool is_of_python() const { return weak_ != nullptr; }
  /// For programs, which keep `self`, this as an object of Python: functions of Python are looked for in it.
  std::shared_ptr<Transport> used_as(nb::handle self) {
    if (weak_ != nullptr && !*weak_) weak_->emplace(nb::weakref(self));
    return *transport_;
  }
  void fail(const std::string& sentence) {
    without_gil([&] {
      const std::scoped_lock lock((*transport_)->turn());
      (*transport_)->fail(sentence);
    });
  }

 private:
  std::shared_ptr<std::optional<Callback>> weak_;  ///< of this as an object of Python: it does not keep itself
  Dropped<std::shared_ptr<Transport>> transport_;
};

std::shared_ptr<Transport> to_transport(nb::handle object) {
  if (!nb::isinstance<OpenTransport>(object)) wrong_type("The transport must be a vkfuse.Transport.");
  if (!nb::inst_ready(object)) wrong_type("The class of the transport does not call super().__init__(rank, size).");
  return nb::cast<OpenTransport&>(object).used_as(object);
}

nb::typed<nb::list, OpenTransport> thread_transports_list(int ranks) {
  nb::typed<nb::list, OpenTransport> made;
  for (std::shared_ptr<Transport>& one : value_of(thread_transports(ranks)))
    made.append(nb::cast(std::make_unique<OpenTransport>(std::move(one))));
  return made;
}

std::unique_ptr<OpenTransport> nccl_transport(nb::handle messages, nb::kwargs given) {
  NcclOptions options;
  take_options(given, "open_nccl",
               {
                   {"nccl", [&](nb::handle value) { options.nccl = to_text(value, "library of NCCL"); }},
                   {"cuda", [&](nb::handle value) { options.cuda = to_text(value, "library of CUDA's driver"); }},
                   {"least_bytes",
                    [&](nb::handle value) {
                      const std::int64_t bytes = to_integer(value, "number of bytes");
                      if (bytes < 0) throw Failure(invalid("A message has no {} bytes.", bytes));
                      options.least_bytes = static_cast<std::uint64_t>(bytes);
                    }},
               });
  const std::shared_ptr<Transport> inner = to_transport(messages);
  return std::make_unique<OpenTransport>(value_of(without_gil([&] { return open_nccl(inner, options); })));
}

constexpr const char* kTransportDoc =
    "Carries bytes between this rank and the others of a job. One thread at a time compiles or runs programs of\n"
    "a transport: another one waits. thread_transports(), open_mpi() and open_nccl() make some; a subclass that\n"
    "has exchange(), and best fail(), is one, too, and calls super().__init__(rank, size).";

constexpr const char* kExchangeDoc =
    "What a subclass defines. sends: a list of (rank, array of uint8 to send to it); receives: of (rank, array\n"
    "of uint8 to fill with what it sends). The n-th message to a rank is the n-th that it receives from this\n"
    "one in its exchange of the same number, which counts up. Returns when all has arrived and what is sent may\n"
    "be overwritten. Raises FileError, whose text is one sentence, or another OSError, as TimeoutError, after\n"
    "`timeout` seconds, and at once where a rank is known to have failed; it is not called again after that.\n"
    "Called by the thread that compiles or runs, and calls no program.";

constexpr const char* kFailDoc =
    "Tells the other ranks that this one goes no further, so that they need not wait: their runs are errors\n"
    "from now on. Programs call it once, where a call fails; call it for what fails between calls. A subclass\n"
    "may define it, without waiting; where it does not, the others wait until their timeout.";

void bind_transports(nb::module_& module) {
  nb::class_<OpenTransport>(module, "Transport", nb::is_weak_referenceable(), kTransportDoc)
      .def(nb::init<int, int>(), "rank"_a, "size"_a, "Of a subclass: rank `rank` of a job of `size` ranks.")
      .def_prop_ro(
          "rank", [](const OpenTransport& self) { return self.get().rank(); }, "Counted from 0.")
      .def_prop_ro(
          "size", [](const OpenTransport& self) { return self.get().size(); }, "How many ranks the job has.")
      .def(
          "exchange",
          [](nb::handle self, std::uint64_t, nb::list, nb::list, double) {
            throw Failure(unsupported("A transport of type {} has no exchange() that Python can call.",
                                      nb::cast<std::string>(nb::str(self.type().attr("__name__")))));
          },
          "number"_a, "sends"_a, "receives"_a, "timeout"_a, kExchangeDoc)
      .def(
          "fail",
          [](OpenTransport& self, const std::string& sentence) {
            if (!self.is_of_python()) self.fail(sentence);
          },
          "sentence"_a, kFailDoc)
      .def("__repr__", [](nb::handle self) {
        const Transport& one = nb::cast<const OpenTransport&>(self).get();
        return fmt::format("<vkfuse.{}, rank {} of {}>", nb::cast<std::string>(nb::str(self.type().attr("__name__"))),
                           one.rank(), one.size());
      });
  module.def("thread_transports", &thread_transports_list, "ranks"_a,
             "Transports of ranks that are threads of this process, one for each: several devices, or one device.");
  module.def("open_nccl", &nccl_transport, "messages"_a, "options"_a, nb::keep_alive<0, 1>(),
             "The ranks of another transport, which carries their messages still and is used by nothing else from now\n"
             "on; values go from GPU to GPU by NCCL. Options: nccl=\"libnccl.so.2\", cuda=\"libcuda.so.1\",\n"
             "least_bytes=262144 (shorter messages go by the other transport). Unsupported where a library is not\n"
             "there or is too old.");
}

// ---- programs ----

/// A program of one rank, with the device and the transport that it runs on.
class RankProgram {
 public:
  RankProgram(Device device, nb::object transport, ParallelProgram program)
      : transport_(std::move(transport)),
        device_(std::move(device)),
        program_(std::move(program)),
        inputs_(program_->inputs()),
        outputs_(program_->outputs()) {
    for (const Port& port : inputs_) input_names_.push_back(port.name);
    for (const Port& port : outputs_) output_names_.push_back(port.name);
  }

  [[nodiscard]] const ParallelProgram& get() const { return *program_; }
  [[nodiscard]] const Device& device() const { return *device_; }
  [[nodiscard]] nb::object transport() const { return transport_; }
  [[nodiscard]] const std::vector<Port>& inputs() const { return inputs_; }
  [[nodiscard]] const std::vector<Port>& outputs() const { return outputs_; }
  [[nodiscard]] const std::vector<std::string>& input_names() const { return input_names_; }
  [[nodiscard]] const std::vector<std::string>& output_names() const { return output_names_; }

 private:
  nb::object transport_;
  Dropped<Device> device_;
  Dropped<ParallelProgram> program_;
  std::vector<Port> inputs_, outputs_;
  std::vector<std::string> input_names_, output_names_;
};

/// Those that are given: others may have been uploaded.
GivenInputs inputs_of(const RankProgram& program, const nb::args& positional, const nb::kwargs& named) {
  GivenInputs given;
  for (const auto& [port, object] : match_inputs(program.inputs(), positional, named, false)) given.add(*port, object);
  return given;
}

nb::object call(const RankProgram& program, nb::args positional, nb::kwargs named) {
  return run_on_host(inputs_of(program, positional, named), program.output_names(),
                     [&](const Inputs& inputs) { return program.get().run(inputs); });
}

nb::object download(const RankProgram& program) {
  return run_on_host({}, program.output_names(), [&](const Inputs&) { return program.get().download(); });
}

void upload(const RankProgram& program, nb::args positional, nb::kwargs named) {
  const GivenInputs given = inputs_of(program, positional, named);
  check_ok(without_gil([&] { return program.get().upload(given.inputs()); }));
}

constexpr const char* kProgramDoc =
    "A program of this rank. Called with arrays, in the order of its inputs or by their names, it runs with the\n"
    "other ranks and gives a dict of NumPy arrays. Every rank runs the same programs in the same order, with\n"
    "the same sizes of symbols. Of a program that was divided over a mesh, inputs are whole on every rank,\n"
    "which uploads its part; an output that is annotated is this rank's part, and any other is whole. Inputs\n"
    "that upload() has placed may be left out, and those that other stages alone read. An error is one of\n"
    "the job: the other ranks get one, too, and no later run succeeds.";

void bind_program_class(nb::module_& module) {
  nb::class_<RankProgram>(module, "ParallelProgram", nb::is_weak_referenceable(), kProgramDoc)
      .def("__call__", &call, "arrays"_a, "named"_a)
      .def("upload", &upload, "arrays"_a, "named"_a,
           "Places inputs on the device for every later call: weights cross once. One that is given to a call has\n"
           "those values in that call, and has to be placed again for later ones. Does not speak with other ranks.")
      .def(
          "execute", [](const RankProgram& self) { check_ok(without_gil([&] { return self.get().execute(); })); },
          "A run on inputs that were all placed, whose results stay on the device. Returns when they are there.")
      .def("download", &download, "The results of the last run, as a call gives them.")
      .def(
          "profile",
          [](const RankProgram& self) { return value_of(without_gil([&] { return self.get().profile(); })); },
          "Device time of each kernel of this rank on the values of the last run: a list of KernelTime, named by "
          "part,\n"
          "\"part 2, segment 0\". Does not speak with other ranks.")
      .def(
          "explain", [](const RankProgram& self) { return without_gil([&] { return self.get().explain(); }); },
          "The parts with their kernels and the collectives between them, with their bytes and why each is there.")
      .def_prop_ro("inputs", &RankProgram::inputs, "In the order in which the program was written down.")
      .def_prop_ro("outputs", &RankProgram::outputs)
      .def_prop_ro("input_names", &RankProgram::input_names)
      .def_prop_ro("output_names", &RankProgram::output_names)
      .def_prop_ro("device", [](const RankProgram& self) { return new OpenDevice(self.device()); })
      .def_prop_ro("transport", &RankProgram::transport)
      .def_prop_ro(
          "kernel_count",
          [](const RankProgram& self) { return without_gil([&] { return self.get().kernel_count(); }); },
          "Dispatches of one run of this rank.")
      .def_prop_ro(
          "collective_count", [](const RankProgram& self) { return self.get().collective_count(); }, "Of one run.")
      .def("__repr__", [](const RankProgram& self) {
        const auto rank = nb::cast<int>(self.transport().attr("rank"));
        return fmt::format("<vkfuse.ParallelProgram ({}) -> ({}), rank {} on {}>", fmt::join(self.input_names(), ", "),
                           fmt::join(self.output_names(), ", "), rank, self.device().description().name);
      });
}

std::chrono::milliseconds to_milliseconds(nb::handle seconds, const char* what) {
  const double given = to_number(seconds, what);
  if (std::isnan(given)) throw Failure(invalid("A timeout of {} seconds is given.", given));
  constexpr double kMost = 1e9;  // longer than programs live
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(std::clamp(given, -kMost, kMost) * 1000)));
}

std::vector<int> to_mesh(nb::handle object) {
  std::vector<int> sizes;
  for (const std::int64_t size : to_integers(object, "size of a mesh")) {
    if (size < INT_MIN || size > INT_MAX) throw Failure(invalid("A mesh has no axis of {} ranks.", size));
    sizes.push_back(static_cast<int>(size));
  }
  return sizes;
}

int to_micro_batches(nb::handle object) {
  const std::int64_t count = to_integer(object, "number of micro-batches");
  if (count < INT_MIN || count > INT_MAX)
    throw Failure(invalid("A program is not worked on in {} micro-batches.", count));
  return static_cast<int>(count);
}

ParallelOptions parallel_options(const nb::kwargs& given, const char* function, const std::vector<Option>& more = {}) {
  ParallelOptions made;
  std::vector<Option> options = {
      {"mesh", [&](nb::handle value) { made.mesh.sizes = to_mesh(value); }},
      {"timeout", [&](nb::handle value) { made.timeout = to_milliseconds(value, "timeout"); }},
      {"compile_timeout",
       [&](nb::handle value) { made.compile_timeout = to_milliseconds(value, "timeout of the compilation"); }},
      {"micro_batches", [&](nb::handle value) { made.micro_batches = to_micro_batches(value); }},
  };
  options.insert(options.end(), more.begin(), more.end());
  made.compile = compile_options(given, function, options);
  return made;
}

/// What a compilation is asked for. The others do not wait for a rank that asks for what cannot be.
template <typename Prepare>
auto told(Transport& transport, Prepare&& prepare) -> decltype(prepare()) {
  try {
    return prepare();
  } catch (const std::exception& refused) {
    const std::string sentence = refused.what();
    without_gil([&] {
      const std::scoped_lock lock(transport.turn());
      transport.fail(sentence);
    });
    throw;
  }
}

constexpr const char* kCompileDoc =
    "This rank's program of these tensors: one, a sequence, or a dict by the names of the outputs. Every rank\n"
    "calls it with the same, and it returns when all have compiled.\n\n"
    "Options: mesh=[2, 4], the ranks along each axis, whose product is the size of the job: values that shard()\n"
    "has annotated are divided over it, and at_stage() has stages along an axis of it. Ranks count along the last\n"
    "axis first. Without a mesh each rank runs what it is given. micro_batches=1: into how many parts\n"
    "micro_batch() divides values. timeout=10.0: seconds that a rank waits for others in a collective;\n"
    "compile_timeout=120.0: the same while ranks compile. Others are those of compile(), but for memory_budget\n"
    "and plan. InvalidArgument on every rank where two have other collectives.";

void bind_compilation(nb::module_& module) {
  module.def(
      "compile_parallel",
      [](nb::handle outputs, nb::object transport, nb::handle device, nb::kwargs given) {
        const std::shared_ptr<Transport> used = to_transport(transport);
        const auto [results, options, on] = told(*used, [&] {
          Results named = to_results(outputs);
          ParallelOptions requested = parallel_options(given, "compile_parallel");
          requested.compile.output_names = named.names;
          return std::tuple(std::move(named), std::move(requested), device_of(device));
        });
        // Structured bindings cannot be captured by name.
        const auto compiled = [&tensors = results.tensors, &requested = options, &device = on, &used] {
          return compile_parallel(device, used, tensors, requested);
        };
        ParallelProgram made = value_of(without_gil(compiled));
        return std::make_unique<RankProgram>(on, std::move(transport), std::move(made));
      },
      "outputs"_a, "transport"_a, "device"_a = nb::none(), "options"_a, kCompileDoc);
  module.def(
      "compile_parallel_text",
      [](const std::string& text, nb::object transport, nb::handle device, nb::kwargs given) {
        const std::shared_ptr<Transport> used = to_transport(transport);
        const auto [options, on] = told(*used, [&] {
          bool allow_custom = false;
          ParallelOptions requested =
              parallel_options(given, "compile_parallel_text",
                               {{"allow_custom", [&](nb::handle value) { allow_custom = to_truth(value); }}});
          requested.compile.allow_custom = allow_custom;
          return std::tuple(std::move(requested), device_of(device));
        });
        const auto compiled = [&text, &requested = options, &device = on, &used] {
          return compile_parallel_text(device, used, text, requested);
        };
        ParallelProgram made = value_of(without_gil(compiled));
        return std::make_unique<RankProgram>(on, std::move(transport), std::move(made));
      },
      "text"_a, "transport"_a, "device"_a = nb::none(), "options"_a,
      "The same of a text in the form of docs/text-ir.md. Options: those of compile_parallel(), and allow_custom=True\n"
      "for texts with GLSL, which runs on the device as it is.");
}

}  // namespace

void bind_parallel(nb::module_& module) {
  bind_transports(module);
  bind_program_class(module);
  bind_compilation(module);
}

}  // namespace vkfuse::python
