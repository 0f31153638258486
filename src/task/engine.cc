#include "task/engine.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "task/engine_core.h"

namespace forebay::task {

State Task::state() const noexcept { return node_->state.load(std::memory_order_acquire); }

Status Task::status() const {
    switch (state()) {
        case State::kDone: return node_->status;
        case State::kCanceled: return {Code::kUnavailable, "the task was canceled"};
        default: return {Code::kUnavailable, "the task has not ended"};
    }
}

namespace {

Status call(const std::function<Status()>& run) noexcept {   // texts are short enough to need no memory
    try {
        return run();
    } catch (const std::bad_alloc&) {
        return {Code::kUnavailable, "out of memory"};
    } catch (const std::exception& exception) {
        try {
            return {Code::kInternal, exception.what()};
        } catch (const std::bad_alloc&) {
            return {Code::kInternal, "exception"};
        }
    } catch (...) {
        return {Code::kInternal, "exception"};
    }
}

}   // namespace

Engine::Core::Core(Limits limits) : budget_bytes_(limits.budget_bytes), crew_(std::move(limits), [this] { serve(); }) {
    sections_.emplace_back();
}

bool Engine::Core::fits_locked(const Task::Node& node) const noexcept {
    if (node.bytes == 0 || charged_ == 0) return true;
    return running_bytes_ <= budget_bytes_ && node.bytes <= budget_bytes_ - running_bytes_;
}

bool Engine::Core::must_hold_back_locked(const Task::Node& node) const noexcept {
    return node.bytes > 0 && (!held_back_.empty() || !fits_locked(node));
}

// The number of tasks that threads could begin now. A thread that takes a task looks again, so an estimate suffices.
std::size_t Engine::Core::takeable_locked() const noexcept {
    return scheduled_.size() + (!held_back_.empty() && fits_locked(*held_back_.front()) ? 1 : 0);
}

NodePtr Engine::Core::take_locked() {
    NodePtr node;
    if (!held_back_.empty() && fits_locked(*held_back_.front())) node = held_back_.front();
    while (!node && !scheduled_.empty()) {
        if (must_hold_back_locked(*scheduled_.front())) place_locked(*scheduled_.front(), held_back_);
        else node = scheduled_.front();
    }
    if (!node) return nullptr;
    place_locked(*node, running_);
    node->runner = std::this_thread::get_id();
    running_bytes_ += node->bytes;
    charged_ += node->bytes > 0 ? 1 : 0;
    node->state.store(State::kRunning, std::memory_order_release);
    return node;
}

void Engine::Core::run(NodePtr node, std::unique_lock<std::mutex>& lock) {
    Ended ended;
    lock.unlock();
    node->status = call(node->run);
    node->run = nullptr;
    lock.lock();
    running_bytes_ -= node->bytes;
    charged_ -= node->bytes > 0 ? 1 : 0;
    end_locked(*node, State::kDone, ended);
    if (crew_.empty()) summon_locked();   // the caller may not take another task
    ended.nodes.erase(node->place);
    if (ended.nodes.empty()) return;
    lock.unlock();
    ended.destroy();
    lock.lock();
}

void Engine::Core::serve() {
    std::unique_lock lock(mutex_);
    do {
        while (NodePtr node = take_locked()) {
            crew_.begin_task(takeable_locked());
            run(std::move(node), lock);
            crew_.end_task();
        }
    } while (crew_.await_summons(lock));
}

// Wakes or starts a thread for each task that may begin. Without threads, wakes the callers of `wait`.
void Engine::Core::summon_locked() {
    const std::size_t takeable = takeable_locked();
    crew_.summon(takeable);
    if (crew_.empty() && waiters_ > 0 && takeable > 0) ended_.notify_all();
}

bool Engine::Core::called_by_task_locked() const noexcept {
    return std::any_of(running_.begin(), running_.end(),
                       [self = std::this_thread::get_id()](const NodePtr& node) { return node->runner == self; });
}

void Engine::Core::begin_stop() {
    Ended ended;
    const std::lock_guard lock(mutex_);
    crew_.stop();
    for (Nodes* list : {&scheduled_, &held_back_})
        while (!list->empty()) mark_ended_locked(*list->front(), State::kCanceled);
    settle_locked(ended);
}

bool Engine::Core::stop(std::chrono::steady_clock::time_point until) {
    begin_stop();
    std::unique_lock lock(mutex_);
    ++all_waiters_;
    const bool ended = ended_.wait_until(lock, until, [this] { return running_.empty(); });
    --all_waiters_;
    return ended;
}

bool Engine::Core::assist() {
    const std::lock_guard lock(mutex_);
    const std::size_t takeable = crew_.stopping() ? 0 : takeable_locked();
    crew_.assist(takeable);
    return takeable > 0;
}

void Engine::Core::allow(std::size_t threads) {
    const std::lock_guard lock(mutex_);
    crew_.allow(threads);
}

Engine::Core::~Core() { begin_stop(); }   // the crew waits for its threads; tasks that become free to run are canceled

Submitted Engine::Core::submit(Request request) {
    Ended ended;
    const auto node = std::make_shared<Task::Node>();
    node->engine = this;
    node->run = std::move(request.run);
    node->bytes = request.bytes;
    node->barrier = request.barrier;
    if (const std::size_t parents = request.parents.size() + request.sufficient_parents.size(); parents > 0)
        node->edges = std::make_unique<Edge[]>(parents);
    Nodes fresh{node};
    node->list = &fresh;
    node->place = fresh.begin();

    const std::lock_guard lock(mutex_);
    node->section = &sections_.back();
    if (node->barrier) sections_.emplace_back();   // the last call that may throw
    ++unfinished_;
    place_locked(*node, waiting_);
    link_locked(*node, request);
    open_sections_locked();
    settle_locked(ended);
    summon_locked();
    return {Task(node), Status::ok(), !crew_.empty()};
}

bool Engine::Core::cancel(Task::Node& node) {
    Ended ended;
    const std::lock_guard lock(mutex_);
    switch (node.state.load(std::memory_order_relaxed)) {
        case State::kCanceled: return true;
        case State::kRunning:
        case State::kDone: return false;
        default: break;
    }
    end_locked(node, State::kCanceled, ended);
    summon_locked();   // it may have been the last task before a barrier
    return true;
}

Status Engine::Core::wait(Task::Node* awaited) {
    const auto over = [&] {
        return awaited != nullptr ? has_ended(awaited->state.load(std::memory_order_relaxed)) : unfinished_ == 0;
    };
    std::unique_lock lock(mutex_);
    if (over()) return Status::ok();
    if (called_by_task_locked())
        return {Code::kInvalidArgument, "a task waits for tasks of its own engine: name them as its parents"};
    std::size_t& waiters = awaited != nullptr ? awaited->waiters : all_waiters_;
    ++waiters;
    ++waiters_;
    while (!over()) {
        NodePtr node = crew_.empty() ? take_locked() : nullptr;
        if (node) run(std::move(node), lock);
        else ended_.wait(lock);
    }
    --waiters_;
    --waiters;
    return Status::ok();
}

Engine::Engine(Limits limits) : core_(std::make_unique<Core>(std::move(limits))) {}

Engine::~Engine() = default;

Submitted Engine::submit(Request request) {
    if (!core_) return {{}, {Code::kUnavailable, "submit a task: the engine's threads were forgotten"}, false};
    if (!request.run) return {{}, {Code::kInvalidArgument, "submit a task: it has no function"}, false};
    for (const auto& parents : {request.parents, request.sufficient_parents})
        for (const Task& parent : parents)
            if (!parent || parent.node_->engine != core_.get())
                return {{}, {Code::kInvalidArgument, "submit a task: a parent is no task of this engine"}, false};
    return core_->submit(std::move(request));
}

bool Engine::cancel(const Task& task) {
    if (!task) return false;
    if (task.state() == State::kCanceled) return true;
    return core_ && task.node_->engine == core_.get() && core_->cancel(*task.node_);
}

Status Engine::wait(const Task& task) {
    if (!task) return {Code::kInvalidArgument, "wait for a task: there is none"};
    if (!has_ended(task.state())) {
        if (!core_ || task.node_->engine != core_.get())
            return {Code::kInvalidArgument, "wait for a task: it is no task of this engine"};
        FOREBAY_TRY(core_->wait(task.node_.get()));
    }
    return task.status();
}

Status Engine::wait_all() {
    if (!core_) return {Code::kInvalidArgument, "wait for all tasks: the engine's threads were forgotten"};
    return core_->wait(nullptr);
}

void Engine::allow(std::size_t threads) {
    if (core_) core_->allow(threads);
}

bool Engine::assist() { return core_ && core_->assist(); }

bool Engine::stop(std::chrono::steady_clock::time_point until) { return !core_ || core_->stop(until); }

void Engine::forget_threads() noexcept {
    // The state is not destroyed: its threads cannot be joined, and its condition variables have lost their sleepers.
    (void)core_.release();
}

}   // namespace forebay::task
