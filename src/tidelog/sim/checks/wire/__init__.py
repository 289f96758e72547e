"""What was said: `wire_tap` takes it from the bytes on the wire, `said` is what it hands on, `fetches` judges how far
followers have come by it, `answers` what clients were told, `strangers` who was answered, `controllers` whom brokers
obeyed; `probe` asks for what nobody may have.
"""
