#pragma once

#include <cstddef>
#include <vector>

namespace dpo::report {

struct Point {
  double x = 0, y = 0;
};

// The values of a metric in bounded memory. Beyond kMostGroups values, neighbours are merged into groups that
// keep only their sum and first value.
class Series {
 public:
  static constexpr std::size_t kMostGroups = 4096;

  void add(const Point& point);

  std::size_t size() const { return size_; }  // number of values added
  bool empty() const { return size_ == 0; }
  const Point& last() const { return last_; }  // must not be empty
  double largest() const { return largest_; }  // must not be empty
  double median() const;  // NaN if empty; in a long run, the median of the groups' first values

  // Returns at most `most` points: the means of that many groups of neighbours.
  std::vector<Point> means(std::size_t most) const;

  // Returns at most `most` (2 or more) of the values, evenly chosen, including the first and the last.
  std::vector<Point> some(std::size_t most) const;

 private:
  struct Group {
    Point sum, first;
    std::size_t count = 0;
  };
  void merge_groups();

  std::vector<Group> groups_;
  std::size_t stride_ = 1;  // values per group; the last group may have fewer
  std::size_t size_ = 0;
  Point last_;
  double largest_ = 0;
};

// Returns at most `most` (2 or more) of `count` indices, evenly chosen, including the first and the last.
std::vector<std::size_t> some_of(std::size_t count, std::size_t most);

}  // namespace dpo::report
