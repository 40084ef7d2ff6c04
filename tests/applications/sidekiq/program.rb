# What a program does with Sidekiq, the job queue, checked: against the servers at PORTS, its own first, in database 3. Three processes
# of Sidekiq's own command are spread over the servers.
#
# Prints a line for each section and exits with 1 if one of them failed.

require "securerandom"
require "timeout"

ENV["NAME"] ||= "sidekiq-#{SecureRandom.hex(4)}"
require_relative "jobs"

PORTS = ENV.fetch("PORTS", "6379").split(",")
PROCESSES = 3
JOBS = 100
LIMIT_SECONDS = 40

def wait_until(what)
  deadline = Time.now + LIMIT_SECONDS
  until yield
    raise "waited #{LIMIT_SECONDS} s, and still not: #{what}" if Time.now > deadline
    sleep 0.02
  end
end

def expect(what, found, wanted)
  raise "#{what}: #{found}, not #{wanted}" unless found == wanted
end

def redis(&block)
  Sidekiq.redis(&block)
end

# One by one and in bulk; each is done once.
def jobs
  (0...JOBS / 2).each { |number| Square.perform_async(number) }
  Square.perform_bulk((JOBS / 2...JOBS).map { |number| [number] })
  wait_until("all are done") { redis { |conn| conn.hlen("#{NAME}:squares") } == JOBS }
  found = redis { |conn| conn.hgetall("#{NAME}:squares") }
  expect("squares", found, (0...JOBS).to_h { |number| [number.to_s, (number * number).to_s] })
end

# A script takes what is due from a sorted set.
def schedule
  began = Time.now.to_f
  Late.perform_in(2)
  expect("scheduled", Sidekiq::ScheduledSet.new.scan("Late").count { |job| job.queue == NAME }, 1)
  wait_until("it was done") { redis { |conn| conn.llen("#{NAME}:late") } == 1 }
  took = redis { |conn| conn.lindex("#{NAME}:late", 0) }.to_f - began
  raise "done after #{took} s" if took < 2
end

def retries
  FailFirst.perform_async
  wait_until("it was done at the second try") { redis { |conn| conn.llen("#{NAME}:succeeded") } == 1 }
  expect("tries", redis { |conn| conn.llen("#{NAME}:tries") }, 2)
  dead = Hopeless.perform_async
  wait_until("it is dead, or thrown away") { Sidekiq::Queue.new(NAME).size.zero? }
  expect("retries", Sidekiq::RetrySet.new.any? { |job| job.jid == dead }, false)
end

# What the web page of Sidekiq shows.
def statistics
  expect("queue", Sidekiq::Queue.new(NAME).size, 0)
  mine = lambda { Sidekiq::ProcessSet.new.count { |process| process["queues"] == [NAME] } }
  wait_until("all processes are seen") { mine.call == PROCESSES }
  later = Late.perform_in(3600)
  entry = Sidekiq::ScheduledSet.new.find_job(later)
  expect("found", entry.jid, later)
  entry.delete
  expect("deleted", Sidekiq::ScheduledSet.new.find_job(later), nil)
end

# Processes are told to take no more, by lists that they read.
def quiet
  Sidekiq::ProcessSet.new.each { |process| process.quiet! if process["queues"] == [NAME] }
  wait_until("all are quiet") do
    Sidekiq::ProcessSet.new.select { |process| process["queues"] == [NAME] }.all? { |process| process["quiet"] == "true" }
  end
  Late.perform_async
  sleep 0.5
  expect("queue", Sidekiq::Queue.new(NAME).size, 1)
  Sidekiq::Queue.new(NAME).clear
end

started = (0...PROCESSES).map do |place|
  environment = { "PORTS" => PORTS[place % PORTS.size] }
  spawn(environment, "sidekiq", "-r", File.join(__dir__, "jobs.rb"), "-q", NAME, "-c", "3", "-e", "test")
end
status = 0
begin
  %i[jobs schedule retries statistics quiet].each do |section|
    begin
      send(section)
      puts format("%-12s ok", section)
    rescue StandardError => error
      warn error.full_message
      puts format("%-12s FAILED: %s: %s", section, error.class, error.message.lines.first)
      status = 1
    end
    $stdout.flush
  end
ensure
  started.each { |pid| Process.kill("TERM", pid) rescue nil }
  started.each do |pid|
    Timeout.timeout(15) { Process.wait(pid) }
  rescue Timeout::Error
    Process.kill("KILL", pid)
    Process.wait(pid)
  end
end
exit(status)
