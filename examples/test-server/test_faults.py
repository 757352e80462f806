import threading

from kazoo.protocol.states import KazooState


def test_ephemeral_survives_a_lost_connection(ensemble, client):
    client.create("/worker", ephemeral=True)
    back = threading.Event()
    client.add_listener(lambda state: state == KazooState.CONNECTED and back.set())
    ensemble.order("/sessions/0x%x/drop" % client.client_id[0])
    assert back.wait(60)
    assert client.retry(client.exists, "/worker")


def test_ephemeral_ends_with_the_session(ensemble, client):
    client.create("/worker", ephemeral=True)
    lost = threading.Event()
    client.add_listener(lambda state: state == KazooState.LOST and lost.set())
    ensemble.order("/sessions/0x%x/expire" % client.client_id[0])
    assert lost.wait(60)
    assert client.retry(client.exists, "/worker") is None


def test_a_leader_dies(ensemble, client):
    ensemble.order("/servers/leader/kill")
    client.retry(client.create, "/after")
    assert client.retry(client.exists, "/after")
