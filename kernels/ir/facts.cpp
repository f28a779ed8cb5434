// See facts_internal.h.
#include "kernels/ir/facts_internal.h"

#include <algorithm>
#include <numeric>

namespace hone::ir {
namespace {

// Nodes of one resolution, systems of one case analysis, and constraints of one system: beyond them the answer is
// "cannot prove". Kernels of matmul stay below 100, 8 and 200.
constexpr int kResolutionBudget = 2000;
constexpr int kCaseBudget = 48;
constexpr size_t kMaxConstraints = 800;

// Facts that one condition adds, itself included. 6, 12 and 24 prove every kernel of attention; with 64 a resolution
// that tries them all runs out of its budget.
constexpr size_t kMaxConsequences = 12;

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0 ? 1 : 0); }

// Divides by the gcd of the coefficients; the constant rounds down because the sum is an integer.
void tighten(Linear& l) {
  int64_t g = 0;
  for (int i = 0; i < l.n; ++i) g = std::gcd(g, l.terms[static_cast<size_t>(i)].coef);
  if (g <= 1) return;
  for (int i = 0; i < l.n; ++i) l.terms[static_cast<size_t>(i)].coef /= g;
  l.c = floor_div(l.c, g);
}

// Eliminates the variable with coefficients a in l and b in f (opposite signs).
Linear eliminate(const Linear& l, int64_t a, const Linear& f, int64_t b) {
  const int64_t g = std::gcd(a, b);
  Linear out = combine(l, std::abs(b) / g, f, std::abs(a) / g);
  tighten(out);
  return out;
}

bool contradiction(const Linear& l) { return l.valid && l.n == 0 && l.c < 0; }

int last_var(const Linear& l) { return l.terms[static_cast<size_t>(l.n - 1)].var; }
int64_t last_coef(const Linear& l) { return l.terms[static_cast<size_t>(l.n - 1)].coef; }

// The variable whose elimination makes the fewest new constraints, or -1 when no variable is left.
int cheapest_variable(const std::vector<Linear>& system) {
  std::vector<std::pair<int64_t, int64_t>> uses;  // by variable: positive, negative
  for (const Linear& l : system) {
    for (int i = 0; i < l.n; ++i) {
      const Linear::Term& t = l.terms[static_cast<size_t>(i)];
      if (uses.size() <= static_cast<size_t>(t.var)) uses.resize(static_cast<size_t>(t.var) + 1);
      ++(t.coef > 0 ? uses[static_cast<size_t>(t.var)].first : uses[static_cast<size_t>(t.var)].second);
    }
  }
  int best = -1;
  int64_t best_cost = 0;
  for (size_t v = 0; v < uses.size(); ++v) {
    if (uses[v].first + uses[v].second == 0) continue;
    const int64_t cost = uses[v].first * uses[v].second - uses[v].first - uses[v].second;
    if (best < 0 || cost < best_cost) best = static_cast<int>(v), best_cost = cost;
  }
  return best;
}

void add_unless_known(std::vector<Linear>& system, const Linear& l) {
  if (!l.valid || (l.n == 0 && l.c >= 0)) return;
  if (std::find(system.begin(), system.end(), l) == system.end()) system.push_back(l);
}

bool infeasible(std::vector<Linear> system) {
  while (true) {
    if (std::any_of(system.begin(), system.end(), contradiction)) return true;
    const int v = cheapest_variable(system);
    if (v < 0 || system.size() > kMaxConstraints) return false;
    std::vector<Linear> next, lower, upper;
    for (const Linear& l : system) {
      const int64_t a = l.coef(v);
      if (a == 0) {
        add_unless_known(next, l);
      } else {
        (a > 0 ? lower : upper).push_back(l);
      }
    }
    if (lower.size() * upper.size() > kMaxConstraints) return false;
    for (const Linear& a : lower)
      for (const Linear& b : upper) add_unless_known(next, eliminate(a, a.coef(v), b, b.coef(v)));
    system = std::move(next);
  }
}

}  // namespace

int64_t Linear::coef(int var) const {
  for (int i = 0; i < n; ++i)
    if (terms[static_cast<size_t>(i)].var == var) return terms[static_cast<size_t>(i)].coef;
  return 0;
}

bool Linear::operator==(const Linear& o) const {
  return c == o.c && n == o.n && valid == o.valid && std::equal(terms.begin(), terms.begin() + n, o.terms.begin());
}

Linear linear_constant(int64_t c) {
  Linear l;
  l.c = c;
  return l;
}

Linear linear_var(int var) {
  Linear l;
  l.terms[0] = {var, 1};
  l.n = 1;
  return l;
}

Linear combine(const Linear& a, int64_t x, const Linear& b, int64_t y) {
  Linear out;
  out.valid = a.valid && b.valid;
  auto weighted = [&](int64_t u, int64_t v) {
    int64_t p, q, sum;
    const bool bad = __builtin_mul_overflow(u, x, &p) || __builtin_mul_overflow(v, y, &q) ||
                     __builtin_add_overflow(p, q, &sum) ||
                     sum == INT64_MIN;  // so that every coefficient has a magnitude
    if (bad) out.valid = false;
    return bad ? 0 : sum;
  };
  out.c = weighted(a.c, b.c);
  for (int i = 0, j = 0; out.valid && (i < a.n || j < b.n);) {
    const int va = i < a.n ? a.terms[static_cast<size_t>(i)].var : INT32_MAX;
    const int vb = j < b.n ? b.terms[static_cast<size_t>(j)].var : INT32_MAX;
    const int var = std::min(va, vb);
    const int64_t ca = va == var ? a.terms[static_cast<size_t>(i++)].coef : 0;
    const int64_t cb = vb == var ? b.terms[static_cast<size_t>(j++)].coef : 0;
    const int64_t coef = weighted(ca, cb);
    if (coef == 0) continue;
    if (out.n == Linear::kMaxTerms) {
      out.valid = false;
    } else {
      out.terms[static_cast<size_t>(out.n++)] = {var, coef};
    }
  }
  return out;
}

int Facts::add_var() {
  bounds_.emplace_back();
  alternatives_.emplace_back();
  return static_cast<int>(bounds_.size()) - 1;
}

void Facts::assume(Linear l) { add_fact(l, /*follows=*/false); }

void Facts::add_fact(Linear l, bool follows) {
  if (!l.valid) return;
  tighten(l);
  recent_.clear();
  if (l.n > 0) bounds_[static_cast<size_t>(last_var(l))].push_back(facts_.size());
  facts_.push_back(l);
  follows_.push_back(follows ? 1 : 0);
  impossible_ += contradiction(l) ? 1 : 0;
}

void Facts::assume_condition(const Linear& l) {
  assume(l);
  if (!l.valid) return;
  std::vector<Linear> known = {facts_.back()};
  for (size_t i = 0; i < known.size() && known.size() < kMaxConsequences; ++i)
    for (const Linear& c : consequences(Linear(known[i])))
      if (known.size() < kMaxConsequences) add_unless_known(known, c);
  for (size_t i = 1; i < known.size(); ++i) add_fact(known[i], /*follows=*/true);
}

// l with its innermost variable replaced by each bound; a maximum (minimum) by the one argument that l allows.
std::vector<Linear> Facts::consequences(const Linear& l) {
  std::vector<Linear> out;
  if (l.n == 0) return out;
  const int var = last_var(l);
  const int64_t a = last_coef(l);
  for (size_t i : bounds_[static_cast<size_t>(var)])
    if ((a > 0) != (last_coef(facts_[i]) > 0)) out.push_back(eliminate(l, a, facts_[i], last_coef(facts_[i])));
  const Alternatives& alt = alternatives_[static_cast<size_t>(var)];
  if (alt.args.empty() || alt.is_min != (a < 0)) return out;
  std::vector<Linear> possible;
  for (const Linear& arg : alt.args) {
    const Linear with_arg = combine(l, 1, combine(arg, 1, linear_var(var), -1), a);
    if (!refutes_quickly(with_arg)) possible.push_back(with_arg);
  }
  if (possible.empty()) out.push_back(linear_constant(-1));
  if (possible.size() == 1) out.push_back(possible.front());
  return out;
}

void Facts::assume_any(std::vector<Linear> clause) {
  recent_.clear();
  clauses_.push_back(std::move(clause));
}

void Facts::assume_min(int var, const std::vector<Linear>& args) {
  std::vector<Linear> clause;
  for (const Linear& arg : args) {
    assume(combine(arg, 1, linear_var(var), -1));
    clause.push_back(combine(linear_var(var), 1, arg, -1));
  }
  assume_any(std::move(clause));
  alternatives_[static_cast<size_t>(var)] = {.is_min = true, .args = args};
}

void Facts::assume_max(int var, const std::vector<Linear>& args) {
  std::vector<Linear> clause;
  for (const Linear& arg : args) {
    assume(combine(linear_var(var), 1, arg, -1));
    clause.push_back(combine(arg, 1, linear_var(var), -1));
  }
  assume_any(std::move(clause));
  alternatives_[static_cast<size_t>(var)] = {.is_min = false, .args = args};
}

void Facts::forget(const Mark& mark) {
  recent_.clear();
  while (facts_.size() > mark.facts) {
    const Linear& l = facts_.back();
    if (l.n > 0) bounds_[static_cast<size_t>(last_var(l))].pop_back();
    impossible_ -= contradiction(l) ? 1 : 0;
    facts_.pop_back();
    follows_.pop_back();
  }
  clauses_.resize(mark.clauses);
  bounds_.resize(static_cast<size_t>(mark.vars));
  alternatives_.resize(static_cast<size_t>(mark.vars));
}

bool Facts::proves_quickly(const Linear& l) {
  return l.valid && refutes_quickly(combine(l, -1, linear_constant(-1), 1));
}

bool Facts::proves(const Linear& l) {
  if (!l.valid) return false;
  if (proves_quickly(l)) return true;
  const Linear denial = combine(l, -1, linear_constant(-1), 1);
  if (!denial.valid) return false;
  int budget = kResolutionBudget;
  if (resolve(denial, /*all=*/true, budget)) return true;
  std::vector<Linear> system;
  for (size_t i = 0; i < facts_.size(); ++i)
    if (!follows_[i]) system.push_back(facts_[i]);
  system.push_back(denial);
  budget = kCaseBudget;
  return refute_by_cases(system, clauses_.size(), budget);
}

bool Facts::refutes_quickly(const Linear& l) {
  if (!l.valid) return false;
  if (impossible_ > 0) return true;
  for (const Answer& a : recent_)
    if (a.l == l) return a.refuted;
  int budget = kResolutionBudget;
  const bool refuted = resolve(l, /*all=*/false, budget);
  recent_.push_back({l, refuted});
  return refuted;
}

bool Facts::resolve(Linear l, bool all, int& budget) const {
  if (!l.valid || --budget < 0) return false;
  tighten(l);
  if (l.n == 0) return l.c < 0;
  const int var = last_var(l);
  const int64_t a = last_coef(l);
  const std::vector<size_t>& bounds = bounds_[static_cast<size_t>(var)];
  for (size_t i = bounds.size(); i-- > 0;) {  // the latest are the strongest: conditions, specialised values
    if (follows_[bounds[i]] && !all) continue;
    const Linear& f = facts_[bounds[i]];
    const int64_t b = last_coef(f);
    if ((a > 0) != (b > 0) && resolve(eliminate(l, a, f, b), all, budget)) return true;
  }
  return resolve_alternatives(l, var, a, all, budget);
}

// A minimum is one of its arguments: where its lower bound is wanted, l must fail for each of them.
bool Facts::resolve_alternatives(const Linear& l, int var, int64_t a, bool all, int& budget) const {
  const Alternatives& alt = alternatives_[static_cast<size_t>(var)];
  if (alt.args.empty() || alt.is_min != (a < 0)) return false;
  return std::all_of(alt.args.begin(), alt.args.end(), [&](const Linear& arg) {
    const Linear difference = combine(arg, 1, linear_var(var), -1);
    return resolve(combine(l, 1, difference, a), all, budget);
  });
}

bool Facts::refute_by_cases(std::vector<Linear>& system, size_t clause, int& budget) const {
  if (--budget < 0) return false;
  if (infeasible(system)) return true;
  if (clause == 0) return false;
  return std::all_of(clauses_[clause - 1].begin(), clauses_[clause - 1].end(), [&](const Linear& alternative) {
    system.push_back(alternative);
    const bool refuted = refute_by_cases(system, clause - 1, budget);
    system.pop_back();
    return refuted;
  });
}

}  // namespace hone::ir
