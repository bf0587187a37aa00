// Options that are given by name.
#include "bind.hpp"

namespace vkfuse::python {

void take_options(const nb::kwargs& given, const char* function, const std::vector<Option>& options) {
  for (const auto& [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    bool known = false;
    std::string names;
    for (const Option& option : options) {
      names += (names.empty() ? "" : ", ") + std::string(option.name);
      if (name != option.name) continue;
      known = true;
      if (!value.is_none()) option.take(value);
    }
    if (!known) wrong_type(fmt::format("{}() has no option '{}'; there are: {}.", function, name, names));
  }
}

std::string to_text(nb::handle object, const char* what) {
  if (!nb::isinstance<nb::str>(object)) wrong_type(fmt::format("The {} must be a text.", what));
  return nb::cast<std::string>(object);
}

std::vector<std::string> to_texts(nb::handle object, const char* what) {
  if (nb::isinstance<nb::str>(object)) return {nb::cast<std::string>(object)};
  if (!nb::isinstance<nb::iterable>(object)) wrong_type(fmt::format("The {} must be texts.", what));
  std::vector<std::string> all;
  for (const nb::handle one : object) all.push_back(to_text(one, what));
  return all;
}

std::string to_path_text(nb::handle object) {
  return to_text(nb::module_::import_("os").attr("fspath")(object), "path");
}

Callback to_callback(nb::handle object, const char* what) {
  if (PyCallable_Check(object.ptr()) == 0) wrong_type(fmt::format("The option {} must be a function.", what));
  return Callback(nb::borrow(object));
}

bool to_truth(nb::handle object) {
  const int truth = PyObject_IsTrue(object.ptr());
  if (truth < 0) throw nb::python_error();
  return truth == 1;
}

double to_number(nb::handle object, const char* what) {
  const double value = PyFloat_AsDouble(object.ptr());
  if (value == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    wrong_type(fmt::format("The {} must be a number.", what));
  }
  return value;
}

namespace {

/// The place of a name in a list.
template <std::size_t N>
int named(const std::string& name, const char* what, const char* const (&names)[N]) {
  std::string all;
  for (std::size_t i = 0; i < N; ++i) {
    if (name == names[i]) return static_cast<int>(i);
    all += (all.empty() ? "" : ", ") + std::string(names[i]);
  }
  throw Failure(invalid("'{}' is no {}; there are: {}.", name, what, all));
}

}  // namespace

CompileOptions compile_options(const nb::kwargs& given, const char* function, const std::vector<Option>& more) {
  CompileOptions made;
  std::vector<Option> options = {
      {"numerics",
       [&](nb::handle value) {
         made.numerics = static_cast<Numerics>(
             named(to_text(value, "numerics"), "kind of numerics", {"standard", "strict", "f16_accumulation"}));
       }},
      {"fusion", [&](nb::handle value) { made.fusion = to_truth(value); }},
      {"without", [&](nb::handle value) { made.without = to_texts(value, "passes to do without"); }},
      {"planner", [&](nb::handle value) { made.planner = to_text(value, "planner"); }},
      {"memory_budget", [&](nb::handle value) { made.memory_budget = to_integer(value, "memory budget"); }},
      {"plan", [&](nb::handle value) { made.plan = to_text(value, "plan"); }},
      {"tune",
       [&](nb::handle value) {
         made.tune =
             static_cast<Tune>(named(to_text(value, "way to tune"), "way to tune", {"off", "on", "background"}));
       }},
      {"tune_ms", [&](nb::handle value) { made.tune_ms = to_number(value, "time to tune"); }},
      {"on_tune",
       [&](nb::handle value) {
         const Callback callback = to_callback(value, "on_tune");
         made.on_tune = [callback](const TuneProgress& progress) {
           callback.call([&] { return nb::make_tuple(nb::cast(progress)); }, [](const nb::object&) {});
         };
       }},
      {"name", [&](nb::handle value) { made.name = to_text(value, "name"); }},
  };
  options.insert(options.end(), more.begin(), more.end());
  take_options(given, function, options);
  return made;
}

Symbols to_symbols(const nb::kwargs& given) {
  Symbols symbols;
  for (const auto& [key, value] : given) symbols[nb::cast<std::string>(key)] = to_integer(value, "size of a symbol");
  return symbols;
}

Stage to_stage(const std::string& name) {
  return static_cast<Stage>(named(name, "stage", {"graph", "plan", "json", "glsl", "spirv", "msl", "hlsl", "html"}));
}

}  // namespace vkfuse::python
