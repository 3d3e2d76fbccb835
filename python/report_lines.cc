// lockstep._report_lines: the reports of a rank that wait for the thread that sends them, as the
// lines that its agent reads (docs/design/rank-interface.md).
//
// lockstep.log writes the line of its metrics here at once. So a call makes no objects of Python,
// and the thread that sends finds bytes that it need not encode under Python's lock, which would
// stop the training meanwhile. Metrics that need more than that, such as a tensor or a name of
// which it is not known whether it is valid, are refused: lockstep.log prepares them in Python.
//
// Python's lock guards everything, and no function here calls code of Python while a line is
// incomplete. It uses Python's stable ABI and no libtorch, so that programs with another Python or
// torch can log, too.
#include <charconv>
#include <chrono>
#include <cmath>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <Python.h>

namespace {

// Metrics whose names are not in a set of valid ones are refused.
struct KnownNames {
  PyObject* set;
};
// The caller has checked them.
struct AnyNames {};

// How a function of Python's interface ended.
enum class Outcome { done, refused, failed };

Outcome outcome_of(bool done) { return done ? Outcome::done : Outcome::failed; }

void append_digits(std::string& line, auto number) {
  char digits[32];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, number);
  line.append(digits, end);
}

// The shortest digits that have the same bits when they are read. Always with a point or an
// exponent: a JSON parser would read -0 and large numbers as integers.
void append_number(std::string& line, double number) {
  if (std::isnan(number)) {
    line += "\"NaN\"";
  } else if (std::isinf(number)) {
    line += number > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  } else {
    const std::size_t begin = line.size();
    append_digits(line, number);
    if (line.find_first_of(".e", begin) == std::string::npos) line += ".0";
  }
}

// A valid name has no control characters.
void append_text(std::string& line, std::string_view text) {
  line += '"';
  for (const char each : text) {
    if (each == '"' || each == '\\') line += '\\';
    line += each;
  }
  line += '"';
}

bool append_name(std::string& line, PyObject* name) {
  Py_ssize_t size = 0;
  if (const char* text = PyUnicode_AsUTF8AndSize(name, &size)) {
    append_text(line, {text, static_cast<std::size_t>(size)});
    return true;
  }
  PyErr_Clear();  // half of a surrogate pair
  PyObject* encoded = PyUnicode_AsEncodedString(name, "utf-8", "replace");
  if (encoded == nullptr) return false;
  append_text(line, {PyBytes_AsString(encoded), static_cast<std::size_t>(PyBytes_Size(encoded))});
  Py_DECREF(encoded);
  return true;
}

// Nothing for what is neither a float nor an int that a float can hold. Calls no code of Python.
std::optional<double> plain_number(PyObject* value) {
  if (PyFloat_CheckExact(value)) return PyFloat_AsDouble(value);
  if (!PyLong_CheckExact(value)) return std::nullopt;
  const double number = PyLong_AsDouble(value);
  if (number != -1 || PyErr_Occurred() == nullptr) return number;
  PyErr_Clear();
  return std::nullopt;
}

Outcome append_metric(std::string& line, PyObject* name, PyObject* value, AnyNames) {
  if (!append_name(line, name)) return Outcome::failed;
  line += ':';
  append_number(line, PyFloat_AsDouble(value));
  return outcome_of(PyErr_Occurred() == nullptr);
}

Outcome append_metric(std::string& line, PyObject* name, PyObject* value, KnownNames names) {
  if (!PyUnicode_CheckExact(name)) return Outcome::refused;
  const int is_known = PySet_Contains(names.set, name);
  if (is_known != 1) return is_known == 0 ? Outcome::refused : Outcome::failed;
  const std::optional<double> number = plain_number(value);
  if (!number) return Outcome::refused;
  if (!append_name(line, name)) return Outcome::failed;
  line += ':';
  append_number(line, *number);
  return Outcome::done;
}

template <typename Names>
Outcome append_values(std::string& line, PyObject* values, Names names) {
  line += ",\"values\":{";
  PyObject* name = nullptr;
  PyObject* value = nullptr;
  bool is_first = true;
  for (Py_ssize_t at = 0; PyDict_Next(values, &at, &name, &value);) {
    if (!std::exchange(is_first, false)) line += ',';
    const Outcome outcome = append_metric(line, name, value, names);
    if (outcome != Outcome::done) return outcome;
  }
  line += "}}\n";
  return Outcome::done;
}

// False: an error of Python.
bool append_step(std::string& line, PyObject* step) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(step, &overflow);
  if (overflow == 0) {
    append_digits(line, number);
    return true;
  }
  PyObject* digits = PyObject_Str(step);  // the agent refuses it
  if (digits == nullptr) return false;
  const char* text = PyUnicode_AsUTF8AndSize(digits, nullptr);
  if (text != nullptr) line += text;
  Py_DECREF(digits);
  return text != nullptr;
}

bool append_beginning(std::string& line, PyObject* step, long long time_us) {
  line += "{\"kind\":\"metrics\",\"step\":";
  if (!append_step(line, step)) return false;
  line += ",\"time_us\":";
  append_digits(line, time_us);
  return true;
}

long long now_us() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

// --- The type Lines ---

struct Lines {
  std::string bytes{};
  Py_ssize_t count = 0;
  Py_ssize_t limit = 0;
  bool is_open = false;
};

struct LinesObject {
  PyObject_HEAD Lines lines;
};

Lines& lines_of(PyObject* self) { return reinterpret_cast<LinesObject*>(self)->lines; }

PyObject* make_lines(PyTypeObject* type, PyObject* arguments, PyObject*) {
  Py_ssize_t limit = 0;
  if (PyArg_ParseTuple(arguments, "n", &limit) == 0) return nullptr;
  const auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  PyObject* self = allocate(type, 0);
  if (self != nullptr) std::construct_at(&lines_of(self), Lines{.limit = limit});
  return self;
}

void delete_lines(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  std::destroy_at(&lines_of(self));
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

Outcome put_metrics(Lines& lines, PyObject* values, PyObject* step, KnownNames names) {
  if (!lines.is_open || lines.count >= lines.limit) return Outcome::refused;
  if (!PyDict_CheckExact(values) || !PyLong_CheckExact(step)) return Outcome::refused;
  int overflow = 0;
  if (PyLong_AsLongLongAndOverflow(step, &overflow) < 0) return Outcome::refused;
  if (!append_beginning(lines.bytes, step, now_us())) return Outcome::failed;
  const Outcome outcome = append_values(lines.bytes, values, names);
  if (outcome == Outcome::done) ++lines.count;
  return outcome;
}

// put(values, step, names): the set `names` has names that are valid.
PyObject* put(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 3) return PyErr_Format(PyExc_TypeError, "put() takes 3 arguments, got %zd", count);
  Lines& lines = lines_of(self);
  const std::size_t before = lines.bytes.size();
  Outcome outcome = Outcome::failed;
  try {
    outcome = put_metrics(lines, arguments[0], arguments[1], {arguments[2]});
  } catch (const std::exception&) {
    PyErr_NoMemory();
  }
  if (outcome != Outcome::done) lines.bytes.resize(before);
  return outcome == Outcome::failed ? nullptr : PyBool_FromLong(outcome == Outcome::done);
}

PyObject* add(PyObject* self, PyObject* line) {
  char* text = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(line, &text, &size) != 0) return nullptr;
  Lines& lines = lines_of(self);
  try {
    lines.bytes.append(text, static_cast<std::size_t>(size));
  } catch (const std::exception&) {
    return PyErr_NoMemory();
  }
  ++lines.count;
  Py_RETURN_NONE;
}

PyObject* take(PyObject* self, PyObject*) {
  Lines& lines = lines_of(self);
  PyObject* bytes = PyBytes_FromStringAndSize(lines.bytes.data(), std::ssize(lines.bytes));
  if (bytes == nullptr) return nullptr;
  std::exchange(lines.bytes, {});  // its memory, too: a burst is rare
  lines.count = 0;
  return bytes;
}

PyObject* set_open(PyObject* self, PyObject* is_open) {
  lines_of(self).is_open = is_open == Py_True;
  Py_RETURN_NONE;
}

Py_ssize_t count_lines(PyObject* self) { return lines_of(self).count; }

// metrics_line(step, time_us, values)
PyObject* metrics_line(PyObject*, PyObject* arguments) {
  PyObject* step = nullptr;
  PyObject* values = nullptr;
  long long time_us = 0;
  if (PyArg_ParseTuple(arguments, "O!LO!", &PyLong_Type, &step, &time_us, &PyDict_Type, &values) ==
      0)
    return nullptr;
  try {
    std::string line;
    if (!append_beginning(line, step, time_us)) return nullptr;
    if (append_values(line, values, AnyNames{}) == Outcome::failed) return nullptr;
    return PyBytes_FromStringAndSize(line.data(), std::ssize(line));
  } catch (const std::exception&) {
    return PyErr_NoMemory();
  }
}

PyCFunction as_method(PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t)) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef lines_methods[] = {{"put", as_method(put), METH_FASTCALL, nullptr},
                               {"add", add, METH_O, nullptr},
                               {"take", take, METH_NOARGS, nullptr},
                               {"set_open", set_open, METH_O, nullptr},
                               {nullptr, nullptr, 0, nullptr}};

PyType_Slot lines_slots[] = {{Py_tp_new, reinterpret_cast<void*>(make_lines)},
                             {Py_tp_dealloc, reinterpret_cast<void*>(delete_lines)},
                             {Py_tp_methods, lines_methods},
                             {Py_sq_length, reinterpret_cast<void*>(count_lines)},
                             {0, nullptr}};

PyType_Spec lines_spec = {.name = "lockstep._report_lines.Lines",
                          .basicsize = sizeof(LinesObject),
                          .itemsize = 0,
                          .flags = Py_TPFLAGS_DEFAULT,
                          .slots = lines_slots};

int fill_module(PyObject* module) {
  PyObject* type = PyType_FromSpec(&lines_spec);
  if (type == nullptr) return -1;
  const int added = PyModule_AddObjectRef(module, "Lines", type);
  Py_DECREF(type);
  return added;
}

PyMethodDef functions[] = {{"metrics_line", metrics_line, METH_VARARGS, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

PyModuleDef_Slot module_slots[] = {{Py_mod_exec, reinterpret_cast<void*>(fill_module)},
                                   {0, nullptr}};

PyModuleDef module_definition = {.m_base = PyModuleDef_HEAD_INIT,
                                 .m_name = "_report_lines",
                                 .m_doc = nullptr,
                                 .m_size = 0,
                                 .m_methods = functions,
                                 .m_slots = module_slots,
                                 .m_traverse = nullptr,
                                 .m_clear = nullptr,
                                 .m_free = nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__report_lines() { return PyModuleDef_Init(&module_definition); }
