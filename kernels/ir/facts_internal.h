// Linear facts about integer variables, and what follows from them. The prover behind verify.h.
//
// Every question is a refutation: do the facts exclude `l >= 0`? Two methods, both sound and both incomplete:
//  - resolution: replace the innermost variable of `l` by one of its bounds, then the next, until a constant is left.
//    Loop nests are triangular (bounds use outer variables only), so this answers nearly everything, in microseconds.
//  - Fourier-Motzkin over all facts, with a case for each alternative of a clause, when resolution gives up.
// All variables are integers, so each derived fact is tightened: 16 q <= n + 15 becomes q <= floor((n + 15) / 16) where
// that is linear. Arithmetic that leaves 64 bits counts as "cannot prove".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hone::ir {

// c + sum(coef * variable); terms sorted by variable, innermost last.
struct Linear {
  static constexpr int kMaxTerms = 16;
  struct Term {
    int var;
    int64_t coef;
    bool operator==(const Term&) const = default;
  };
  int64_t c = 0;
  int n = 0;
  bool valid = true;  // false: overflow or too many terms
  std::array<Term, kMaxTerms> terms{};

  int64_t coef(int var) const;
  bool operator==(const Linear& o) const;
};

// x * a + y * b.
Linear combine(const Linear& a, int64_t x, const Linear& b, int64_t y);
Linear linear_constant(int64_t c);
Linear linear_var(int var);

class Facts {
 public:
  // A new variable, inner to all others.
  int add_var();
  // l >= 0.
  void assume(Linear l);
  // The same, of a condition on variables that exist already, and what it says about those outside: a strip of n groups
  // is there, so its first key is n groups from the end.
  void assume_condition(const Linear& l);
  // At least one of these is >= 0.
  void assume_any(std::vector<Linear> clause);
  // var is the least (or greatest) of `args`: bounds, and the alternatives that resolution may try.
  void assume_min(int var, const std::vector<Linear>& args);
  void assume_max(int var, const std::vector<Linear>& args);

  struct Mark {
    int vars;
    size_t facts, clauses;
  };
  Mark mark() const { return {static_cast<int>(bounds_.size()), facts_.size(), clauses_.size()}; }
  void forget(const Mark& mark);  // everything since

  // Does l >= 0 follow?
  bool proves(const Linear& l);
  // The same by resolution only: a cheap try.
  bool proves_quickly(const Linear& l);

 private:
  struct Alternatives {
    bool is_min = false;
    std::vector<Linear> args;
  };
  bool refutes_quickly(const Linear& l);
  bool resolve(Linear l, bool all, int& budget) const;
  bool resolve_alternatives(const Linear& l, int var, int64_t a, bool all, int& budget) const;
  bool refute_by_cases(std::vector<Linear>& system, size_t clause, int& budget) const;

  std::vector<Linear> consequences(const Linear& l);
  void add_fact(Linear l, bool follows);

  std::vector<Linear> facts_;
  int impossible_ = 0;            // facts that cannot hold: code that is never reached
  std::vector<uint8_t> follows_;  // by fact: from others by resolution, so that case analysis does without
  std::vector<std::vector<Linear>> clauses_;
  std::vector<std::vector<size_t>> bounds_;  // by variable: facts in which it is innermost
  std::vector<Alternatives> alternatives_;   // by variable
  struct Answer {
    Linear l;
    bool refuted;
  };
  std::vector<Answer> recent_;  // quick answers since the facts last changed
};

}  // namespace hone::ir
