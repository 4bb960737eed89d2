//! The operations without a session.

use concert_protocol::external::connected_external_service_server::ConnectedExternalService;
use concert_protocol::external::{
    CreateRequest, CreateResponse, DeleteRequest, DeleteResponse, ObserveRequest, ObserveResponse, UpdateRequest,
    UpdateResponse,
};
use tonic::{Request, Response, Status};

use super::Face;

#[tonic::async_trait]
impl ConnectedExternalService for Face {
    async fn observe(&self, request: Request<ObserveRequest>) -> Result<Response<ObserveResponse>, Status> {
        let request = request.into_inner();
        Face::observe(self, request.resource.as_ref(), &request.create_token).await.map(Response::new)
    }

    async fn create(&self, request: Request<CreateRequest>) -> Result<Response<CreateResponse>, Status> {
        let request = request.into_inner();
        Face::create(self, request.resource.as_ref(), &request.create_token).await.map(Response::new)
    }

    async fn update(&self, request: Request<UpdateRequest>) -> Result<Response<UpdateResponse>, Status> {
        Face::update(self, request.into_inner().resource.as_ref(), "").await.map(Response::new)
    }

    async fn delete(&self, request: Request<DeleteRequest>) -> Result<Response<DeleteResponse>, Status> {
        Face::delete(self, request.into_inner().resource.as_ref(), "").await.map(Response::new)
    }
}
